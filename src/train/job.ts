import type { Model } from "../models/index.js";
import type { Task } from "../tasks/task.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Dataset } from "./dataset.js";
import type { Placement } from "./predict.js";
import type { TrainSettings } from "./settings.js";
import type { TrainingMethod } from "./training-method.js";

/** Everything a training run is made of. */
export interface TrainingJob {
  readonly model: Model;
  readonly task: Task;
  readonly settings: TrainSettings;
  /** Methods, innermost first; none is standard fine-tuning. */
  readonly methods: readonly TrainingMethod[];
  readonly train: Dataset;
  /** What selects the best checkpoint; null: the last one is taken. */
  readonly validation: Dataset | null;
  readonly seed: number;
  readonly deviceConfig: Placement;
  /** Where checkpoints and events go; null: nowhere (a trial). */
  readonly folder: string | null;
  /** Go on from the newest checkpoint in the folder. */
  readonly resume: boolean;
  readonly loadSubstitutions?: () => Promise<Substitutions>;
  readonly callbacks?: TrainingCallbacks;
  /** Aborted: a checkpoint is written and `Interrupted` thrown. */
  readonly signal?: AbortSignal;
  /** False: on a GPU, run operator by operator instead of recording whole updates. */
  readonly cudaGraphs?: boolean;
  /** Nothing of it will be used: passes over all data before training may end early. */
  readonly dryRun?: boolean;
  /** Ends after so many updates, for a trial or a test. */
  readonly maxSteps?: number;
}

export interface StepReport {
  readonly step: number;
  readonly totalSteps: number;
  readonly epoch: number;
  readonly examples: number;
  readonly seconds: number;
  readonly loss: number;
  readonly learningRate: number;
}

/** Told of what happens; all optional. */
export interface TrainingCallbacks {
  /** Before the first update: updates done (in a resumed run) and in all, and how many numbers are trained. */
  onStart?(facts: { readonly step: number; readonly steps: number; readonly parameters: number }): void | Promise<void>;
  onStep?(report: StepReport): void;
  onEvaluation?(step: number, metrics: Metrics, best: boolean): void;
  onWarning?(message: string): void;
  /** Every event line, as it is written. */
  onEvent?(event: Readonly<Record<string, unknown>>): void;
  /** A longer piece of work besides the updates (an evaluation, Child-Tuning's Fisher pass): done of total. */
  onProgress?(label: string, done: number, total: number): void;
}

/** Selection metrics by name: those of evaluation/metrics.ts, and those that layers add. */
export type Metrics = Readonly<Record<string, number>>;

export interface TrainResult {
  readonly steps: number;
  readonly epochs: number;
  /** The step whose weights the model now holds, and its selection metrics. */
  readonly bestStep: number;
  readonly validation: Metrics | null;
  readonly seconds: number;
}

/** Thrown where a run was stopped from outside after its state was saved. */
export class Interrupted extends Error {
  override name = "Interrupted";
}
