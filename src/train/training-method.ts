import type { Callbacks } from "../base/events.js";
import type { DeviceConfig, EncoderInput, Model, ModelOutput } from "../models/index.js";
import type { AdamW, ForwardMode, ParameterUpdate, Weights } from "../nn/index.js";
import type { Example } from "../tasks/example.js";
import type { Task } from "../tasks/task.js";
import type { HostTensor, Rng, Tensor } from "../tensor/index.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Batch, HostBatch } from "./batch.js";
import type { Dataset, TokenizedExample } from "./dataset.js";
import type { TrainSettings } from "./settings.js";
import type { TaskLoss } from "./task-loss.js";

// Everything that a method sees. A method, the job that lists it, the training that runs it and its
// batches refer to each other, so they are declared together.

export type NamedTensors = ReadonlyMap<string, Tensor>;

/**
 * The name of a forward pass, which methods share and which seeds its random stream: "clean" is the
 * batch, "again" the same text with other dropout masks, METHOD.PASS a pass of one method.
 */
export type PassName = string;

export interface ForwardPass {
  readonly name: PassName;
  readonly mode: ForwardMode;
  readonly context: BatchContext;
}

/** Loss terms by name, each already multiplied by its weight. The total loss is their sum. */
export type Losses = ReadonlyMap<string, Tensor>;

export interface Gradients {
  readonly losses: Losses;
  /** Gradients of the total loss, for every parameter and every extra leaf of the batch. */
  readonly total: NamedTensors;
  /** Gradients of single terms, for a method's `transformUpdates` (ROSE: its masks). */
  readonly auxiliary: ReadonlyMap<string, NamedTensors>;
}

export interface OptimizerStep {
  readonly training: TrainingContext;
  /** Optimizer steps done before this one. */
  readonly stepIndex: number;
  readonly gradients: NamedTensors;
  readonly auxiliaryGradients: ReadonlyMap<string, NamedTensors>;
  /** The global norm of the gradients before clipping. */
  readonly gradientNorm: Tensor;
  readonly optimizer: AdamW;
  /** Seeds the device's generator from (seed, step, "update", names). */
  enterRandomStream(...names: string[]): void;
  /** Logs a number; it is read from the device when events are written. */
  log(name: string, value: Tensor): void;
}

export type ParameterUpdates = Map<string, ParameterUpdate>;

/** Facts about a method besides its mathematics, for the trainer. */
export interface MethodTraits {
  /**
   * Roles of which a stack has one each: "adversary" perturbs the text, "selection" decides which
   * parameters change, "training" freezes weights, "examples" replaces texts.
   */
  readonly exclusiveRoles?: Readonly<Partial<Record<"adversary" | "selection" | "training" | "examples", string>>>;
  /** The method's use of the model's weights, if none of them can be frozen. */
  readonly needsAllWeights?: string;
  /** True if the method runs the clean text twice as one batch (`passTwice`). */
  readonly usesTwoPasses?: boolean;
  /** The reason why the method needs float32 instead of bfloat16. */
  readonly requiresFloat32?: string;
  /** Parameters that need gradients of the task loss alone, as `auxiliaryGradients.task`. */
  readonly needsTaskGradients?: (context: BatchContext) => NamedTensors | null;
  /** Identifies the work of a step. Steps with equal keys can share one captured CUDA graph. */
  readonly graphKey?: (stepIndex: number) => string;
}

/**
 * A fine-tuning method. Hooks call `next` for the result of the methods below, use tensors only and
 * never wait for the device, so that a step can be captured as a CUDA graph.
 */
export interface TrainingMethod {
  readonly name: string;
  readonly traits?: MethodTraits;
  /** Returns why this method cannot run on top of the inner methods, or null if it can. */
  checkCompatibility?(innerMethods: readonly TrainingMethod[], job: TrainingJob): string | null;
  /** Runs once before training, while the model still has its pre-trained weights. */
  prepare?(training: TrainingContext): Promise<void>;
  /** The tensors that it owns. They are saved and restored with the model. */
  state?(): {
    /** Trained with the model. A name like those of the encoder is an adapter of the model. */
    readonly parameters?: NamedTensors;
    readonly buffers?: NamedTensors;
    /** The names of weights of the model that are not trained. */
    readonly frozen?: ReadonlySet<string>;
  };
  /** Replaces the examples of the training or the validation split before tokenization. */
  transformExamples?(examples: readonly Example[], task: Task, rng: Rng): readonly Example[];
  /** Runs before a step and may take long. What it changes must be in `buffers`. */
  beforeStep?(training: TrainingContext, stepIndex: number): Promise<void>;
  /** Adds arrays to a batch on the host; the passes read them with `batch.getExtra(name)`. */
  collate?(batch: HostBatch): Readonly<Record<string, HostTensor>>;
  /** The weights that a forward pass uses. */
  weights?(pass: ForwardPass, next: () => Weights): Weights;
  losses?(context: BatchContext, next: (context?: BatchContext) => Losses): Losses;
  gradients?(context: BatchContext, next: (context?: BatchContext) => Gradients): Gradients;
  transformUpdates?(step: OptimizerStep, next: () => ParameterUpdates): ParameterUpdates;
  afterStep?(step: OptimizerStep, next: () => void): void;
  /** Writes the adapter that the method has trained to a folder. The model has its final weights. */
  saveAdapter?(training: TrainingContext, folder: string): Promise<void>;
  /** Additional validation metrics (ASCC: accuracy under its attack). */
  extraMetrics?(
    training: TrainingContext,
    items: readonly TokenizedExample[],
  ): Promise<Readonly<Record<string, number>>>;
  /** The metrics of `extraMetrics` whose lower values are better, such as an error rate. */
  readonly lowerIsBetter?: readonly string[];
}

/** A training request made concrete: model, data, methods, settings, device and files. */
export interface TrainingJob extends Callbacks {
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
  /** True if a GPU captures complete optimizer steps as CUDA graphs (default: true). */
  readonly cudaGraphs?: boolean;
  /** The paths of checkpoints and logs. If null, nothing is written. */
  readonly files: {
    readonly events: string;
    readonly timings: string;
    readonly checkpoints: string;
    readonly adapter: string;
  } | null;
  readonly resume: boolean;
  /** Called only by methods that need word substitutions. */
  readonly loadSubstitutions?: () => Promise<Substitutions>;
  /** Attacks texts on the current weights of the model, for methods that train on the results. */
  readonly attackTexts?: FindAdversarialTexts;
  /** Set if the result will not be used: passes over all data end early. */
  readonly dryRun?: { readonly stepsPerEpoch: number };
  /** Ends training after this many optimizer steps. The learning-rate schedule is not shortened. */
  readonly stopAfter?: number;
}

/** One training in progress: the job with its random streams, methods, parameters and optimizer. */
export interface TrainingContext {
  readonly job: TrainingJob;
  /** The random numbers of the host. Fork it by name. */
  readonly rng: Rng;
  /** Every trained tensor: the model's weights and the parameters of the methods. */
  readonly parameters: NamedTensors;
  /** The loss of the task: cross-entropy, with the class weights of the settings. */
  readonly taskLoss: TaskLoss;
  readonly stepsPerEpoch: number;
  readonly totalSteps: number;
  /** The methods' buffers from the checkpoint of a resumed run; null in a new run. */
  readonly restoredBuffers: NamedTensors | null;
  /** The batches of each optimizer step of an epoch, as positions in the training data. */
  getEpochBatches(epoch: number): Int32Array[][];
  /** A frozen copy of the weights before the first step. */
  getPretrainedWeights(): Weights;
  /** The word substitutions of the run. Throws an error if the run has none. */
  loadSubstitutions(): Promise<Substitutions>;
  /** Visits the training data in a fixed order and averages the sums over the batches. */
  averageOverBatches(sums: NamedTensors, visit: (context: BatchContext) => void, label: string): Promise<void>;
  /** Computes a row of numbers per item, divided among the processes. */
  computeRows<T>(
    items: readonly T[],
    compute: (items: readonly T[]) => Promise<readonly Float32Array[]>,
  ): Promise<readonly Float32Array[]>;
  /** Reports progress of longer work. Throws `Interrupted` if the job was stopped. */
  reportProgress(label: string, done: number, total: number): void;
  warn(message: string): void;
}

/** The differences of a forward pass from a plain one. */
export interface ForwardPassOptions {
  /** An input other than the batch itself, or a function that creates it for the named pass. */
  readonly input?: EncoderInput | ((name: PassName) => EncoderInput);
  /** Fixed weights that no method changes (a teacher, a moving average). */
  readonly weights?: Weights;
  readonly mode?: ForwardMode;
  /** A random stream other than the name of the pass, to share dropout masks between passes. */
  readonly randomStream?: string;
}

/** One batch on its way through losses and gradients. */
export interface BatchContext {
  readonly training: TrainingContext;
  readonly batch: Batch;
  /** Counts batches over the training. */
  readonly batchIndex: number;
  /** Counts optimizer steps, each of one or more batches. */
  readonly stepIndex: number;
  /** Tensors besides the parameters whose gradients are computed too, by name. */
  readonly extraLeaves: NamedTensors;
  /** @internal Whether the gradients of the total loss may stay in the compute dtype. */
  readonly keepsGradientDtype: boolean;
  /** Runs a forward pass once and remembers its output by name. */
  pass(name: PassName, options?: ForwardPassOptions): ModelOutput;
  /** Runs an earlier pass again under another name, with dropout masks of its own. */
  repeatPass(name: PassName, newName: PassName): ModelOutput;
  hasPass(name: PassName): boolean;
  /** Runs two passes of the batch with different dropout masks as one batch of twice the size. */
  passTwice(first: PassName, second: PassName): readonly [ModelOutput, ModelOutput];
  /** The mode of a forward pass: without dropout if the settings say so. */
  resolveMode(mode: ForwardMode): ForwardMode;
  /** The weights of a pass in the compute dtype. Repeated calls return the same tensors. */
  weights(name: PassName, mode: ForwardMode): Weights;
  /** Computes the gradients of a loss; the gradient of an unused parameter is zero. */
  computeGradients(loss: Tensor, parameters: NamedTensors, retainGraph?: boolean, keepsDtype?: boolean): NamedTensors;
  /** Seeds the device's generator from (seed, batch index, names) alone. */
  enterRandomStream(...names: string[]): void;
  /** Returns the same batch with another input, without remembered passes. */
  withInput(createInput: (derived: BatchContext) => EncoderInput, extraLeaves?: NamedTensors): BatchContext;
  /** Logs a number; it is read from the device when events are written. */
  log(name: string, value: Tensor): void;
}

/** Returns texts that fool the model, or null. Without examples, checks that it can run. */
export type FindAdversarialTexts = (request: {
  /** An attack with its options, such as `genetic:population=20`. */
  readonly attack: string;
  readonly maskedLm: string | null;
  readonly examples: readonly Example[];
  readonly seed: string;
  /** Maximum number of queries per text; null: the attack's own limit. */
  readonly maxQueries: number | null;
  readonly precision: "auto" | "bf16" | "int8" | "fp32";
  onResult?(done: number): void;
}) => Promise<readonly (readonly string[] | null)[]>;

/** Validation metrics by name: those of evaluation/metrics.ts and the methods' extra metrics. */
export type Metrics = Readonly<Record<string, number>>;

export interface TrainResult {
  readonly steps: number;
  /** The step whose weights the model now has. */
  readonly bestStep: number;
  readonly validation: Metrics | null;
  readonly validationDegeneracy: string | null;
}
