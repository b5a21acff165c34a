import type { EncoderInput, TokenInput } from "../models/index.js";
import type { Model, ModelOutput } from "../models/model.js";
import type { AdamW, ForwardMode, ParameterUpdate, Weights } from "../nn/index.js";
import type { Task } from "../tasks/task.js";
import type { DType, Device, HostTensor, Rng, Tensor } from "../tensor/index.js";
import type { PaddedBatch } from "../text/batch.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Dataset, TokenizedExample } from "./dataset.js";
import type { LowPrecisionWeights } from "./mixed-precision.js";
import type { TrainSettings } from "./settings.js";

/** Tensors under the names of parameters. */
export type NamedTensors = ReadonlyMap<string, Tensor>;

export type { HostTensor };

/** A batch before it is on the device. */
export interface HostBatch {
  /** Positions in the data set. */
  readonly indices: Int32Array;
  readonly items: readonly TokenizedExample[];
  readonly padded: PaddedBatch;
  /** Where a batch had to be cut in parts: which one, from 0. The others follow the first. */
  readonly microBatchIndex: number;
}

/** A batch on the device. What layers add in `collate` lies in `extra`, under the names they gave. */
export interface Batch {
  readonly input: TokenInput;
  readonly labels: Tensor; // [batch]
  readonly batchSize: number;
  readonly sequenceLength: number;
  readonly microBatchIndex: number;
  getExtra(name: string): Tensor;
}

/** The whole of a training run, as layers see it. */
export interface TrainingContext {
  readonly model: Model;
  readonly task: Task;
  readonly settings: TrainSettings;
  readonly device: Device;
  /** The type that matrices are multiplied in. */
  readonly computeDtype: DType;
  /** The weights in that type, refreshed before each update; null where it is the weights' own. */
  readonly lowPrecisionWeights: LowPrecisionWeights | null;
  readonly rng: Rng;
  /** The methods, innermost first. */
  readonly methods: readonly TrainingMethod[];
  readonly dataset: Dataset;
  /** Updates planned in all. */
  readonly totalSteps: number;
  /** All that is trained: the model's weights and the layers' own parameters. */
  readonly parameters: NamedTensors;
  /** What a resumed run found in its checkpoint under the layers' names; null in a new run. */
  readonly restoredBuffers: NamedTensors | null;
  /** A frozen copy of the weights as they were before the first update. */
  getPretrainedWeights(): Weights;
  /** The substitution set of the run; an error where none was named. */
  loadSubstitutions(): Promise<Substitutions>;
  /** Batches of the training data in a fixed order, seen by the model alone, for a pass before training (Child-Tuning's Fisher). */
  forEachBatch(visit: (step: BatchContext) => void, label: string): Promise<void>;
  /** Nothing of the run will be used: a pass over all data may end early. */
  readonly dryRun: boolean;
  /** Says how far a longer piece of work beside the updates is; throws where the run was stopped meanwhile. */
  reportProgress(label: string, done: number, total: number): void;
  warn(message: string): void;
}

export interface ForwardPassOptions {
  /** Another input than the batch's own. */
  readonly input?: EncoderInput;
  /** Weights as they are, past every layer's `weights` (a teacher, a slow copy). */
  readonly weights?: Weights;
  readonly mode?: ForwardMode;
  /** A random stream other than the pass's own name, to share dropout masks between passes. */
  readonly randomStream?: string;
}

/** A forward pass that is about to run. */
export interface ForwardPass {
  readonly name: string;
  readonly mode: ForwardMode;
  readonly context: BatchContext;
}

/** One batch on its way through the losses. */
export interface BatchContext {
  readonly run: TrainingContext;
  readonly batch: Batch;
  /** Counts batches from 0 over the whole run; the parts of one share its number. */
  readonly batchIndex: number;
  /** Runs a forward pass once and remembers it. Weights come from the outermost layer down, so Mixout over ASCC reaches its passes too. */
  pass(name: string, request?: ForwardPassOptions): ModelOutput;
  /** Two passes of the batch with different dropout, run as one batch of double size. */
  passTwice(first: string, second: string): readonly [ModelOutput, ModelOutput];
  /** Whether a pass of that name has run. */
  hasPass(name: string): boolean;
  /** The weights that a pass of that name uses, in the type it computes in: asked for twice, they are the same tensors. */
  weights(name: string, mode: ForwardMode): Weights;
  /** Points the device's generator at the stream (seed, step, names): what is drawn next depends on nothing else. */
  enterRandomStream(...names: string[]): void;
  /** Leaves besides the parameters whose gradients are wanted with theirs, under names of their own. */
  readonly extraLeaves: NamedTensors;
  /** The same batch read from another input (which may use the new step's weights), nothing remembered; random streams stay the same. */
  withInput(input: (derived: BatchContext) => EncoderInput, extraLeaves?: NamedTensors): BatchContext;
  /** A number for the events, read when events are written. */
  log(name: string, value: Tensor): void;
}

/** Loss terms by name, each with its weight in it; the total is their sum. */
export type Losses = ReadonlyMap<string, Tensor>;

export interface Gradients {
  readonly losses: Losses;
  /** Of the total, for every parameter and the step's own leaves. */
  readonly total: NamedTensors;
  /** Of single terms, under names that a layer's `select` knows (ROSE: the consistency term's). */
  readonly auxiliary: ReadonlyMap<string, NamedTensors>;
}

/** One update of the parameters, after clipping. */
export interface OptimizerStep {
  readonly run: TrainingContext;
  /** Counts updates from 0. */
  readonly stepIndex: number;
  readonly gradients: NamedTensors;
  readonly auxiliaryGradients: ReadonlyMap<string, NamedTensors>;
  readonly optimizer: AdamW;
  enterRandomStream(...names: string[]): void;
  log(name: string, value: Tensor): void;
}

export type ParameterUpdates = Map<string, ParameterUpdate>;

/** What a layer owns beyond the model: trained, saved and resumed with it. */
export interface MethodState {
  readonly parameters?: NamedTensors;
  readonly buffers?: NamedTensors;
}

/**
 * A method: a layer that takes over some decisions of a training step and leaves the rest to the layers beneath (`next`).
 * It sees tensors only and never waits for the device, so that the whole step can be captured.
 */
export interface TrainingMethod {
  readonly name: string;
  /** Roles that only one layer of a run can have, each with what it does ("adversary": "searches its own perturbation"). */
  readonly exclusiveRoles?: Readonly<Record<string, string>>;
  /** True where it runs the clean text twice, as one batch (`step.pair`): layers over it then find both passes. */
  readonly usesTwoPasses?: boolean;
  /** Why this layer cannot work over the ones beneath it, or null. */
  checkCompatibility?(
    innerMethods: readonly TrainingMethod[],
    run: Pick<TrainingContext, "model" | "task" | "settings" | "computeDtype">,
  ): string | null;
  /** Why its loss needs all of a batch at once, where it does: such a batch cannot be halved. */
  readonly requiresFullBatch?: string;
  /** Why it needs float32, where bfloat16 would lose what it does. */
  readonly requiresFloat32?: string;
  prepare?(run: TrainingContext): Promise<void>;
  state?(): MethodState;
  /** Adds numbers of its own to a batch on the host. */
  collate?(batch: HostBatch): Readonly<Record<string, HostTensor>>;
  weights?(pass: ForwardPass, next: () => Weights): Weights;
  losses?(step: BatchContext, next: (step?: BatchContext) => Losses): Losses;
  gradients?(step: BatchContext, next: (step?: BatchContext) => Gradients): Gradients;
  transformUpdates?(update: OptimizerStep, next: () => ParameterUpdates): ParameterUpdates;
  afterStep?(update: OptimizerStep, next: () => void): void;
  /** Values that decide which captured graph fits this step (ROSE: first step, refresh): steps with equal keys do the same work. */
  graphKey?(update: number): string;
  /** The metric of its `evaluate` that a run with it is selected by, unless the run names another. */
  readonly bestModelMetric?: string;
  /** Further dev metrics (ASCC: accuracy under its attack). */
  extraMetrics?(run: TrainingContext, items: readonly TokenizedExample[]): Promise<Readonly<Record<string, number>>>;
}
