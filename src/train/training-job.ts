import type { DeviceConfig, Model } from "../models/index.js";
import type { Task } from "../tasks/task.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Dataset } from "./dataset.js";
import type { Ranks } from "./ranks.js";
import type { TrainSettings } from "./settings.js";
import type { TrainingMethod } from "./training-method.js";

/** A training request made concrete: model, data, methods, settings, device and files. */
export interface TrainingJob {
  readonly model: Model;
  readonly task: Task;
  readonly settings: TrainSettings;
  /** Methods, innermost first. An empty list is standard fine-tuning. */
  readonly methods: readonly TrainingMethod[];
  readonly train: Dataset;
  /** Selects the best checkpoint. If null, the last checkpoint is used. */
  readonly validation: Dataset | null;
  readonly seed: number;
  readonly deviceConfig: DeviceConfig;
  /** Whether a GPU captures complete optimizer steps as CUDA graphs (default: true). */
  readonly cudaGraphs?: boolean;
  /** The processes that train together. Default: this one alone. */
  readonly ranks?: Ranks;
  /** Where checkpoints and logs go. If null, nothing is written. */
  readonly files: TrainingFiles | null;
  /** Whether to continue from the newest checkpoint. */
  readonly resume: boolean;
  /** Called only by methods that need word substitutions. */
  readonly loadSubstitutions?: () => Promise<Substitutions>;
  readonly callbacks?: TrainingCallbacks;
  /** When aborted, training writes a checkpoint and throws `Interrupted`. */
  readonly signal?: AbortSignal;
  /** True if the result will not be used: passes over all data before training end early. */
  readonly dryRun?: boolean;
  /** Ends training after this many optimizer steps. The learning-rate schedule is not shortened. */
  readonly stopAfter?: number;
}

/** Paths that a training writes; the owner of the run folder chooses them. */
export interface TrainingFiles {
  readonly events: string;
  readonly timings: string;
  /** A folder. */
  readonly checkpoints: string;
}

/** Progress after one optimizer step. */
export interface StepReport {
  readonly step: number;
  readonly totalSteps: number;
  readonly epoch: number;
  readonly examples: number;
  readonly seconds: number;
  readonly loss: number;
  readonly learningRate: number;
}

/** Functions that training calls as it proceeds. */
export interface TrainingCallbacks {
  /** Before the first step. `step` counts the steps that a resumed run has already done. */
  onStart?(facts: {
    readonly step: number;
    readonly totalSteps: number;
    readonly parameters: number;
  }): void | Promise<void>;
  onStep?(report: StepReport): void;
  onEvaluation?(step: number, metrics: Metrics, best: boolean): void;
  onWarning?(message: string): void;
  /** Every event, when it is written. */
  onEvent?(event: Readonly<Record<string, unknown>>): void;
  /** Longer work besides the steps, such as an evaluation: items done and in total. */
  onProgress?(label: string, done: number, total: number): void;
}

/** Validation metrics by name: those of evaluation/metrics.ts and the methods' extra metrics. */
export type Metrics = Readonly<Record<string, number>>;

/** The result of a training. */
export interface TrainResult {
  readonly steps: number;
  readonly epochs: number;
  /** The step whose weights the model now has. */
  readonly bestStep: number;
  /** The validation metrics of that step. */
  readonly validation: Metrics | null;
  /** Why the model was degenerate on the validation split; null if it was not. */
  readonly validationDegeneracy: string | null;
  readonly seconds: number;
}

/**
 * Thrown when a signal stops an action. Its state has been saved before.
 *
 *     if (error instanceof Interrupted) console.log("Continue later with resume: true.");
 */
export class Interrupted extends Error {
  override name = "Interrupted";
}
