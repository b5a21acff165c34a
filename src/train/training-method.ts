import type { AdamW, ForwardMode, ParameterUpdate, Weights } from "../nn/index.js";
import type { Example } from "../tasks/example.js";
import type { Task } from "../tasks/task.js";
import type { HostTensor, Rng, Tensor } from "../tensor/index.js";
import type { BatchContext } from "./batch-context.js";
import type { HostBatch } from "./batch-transfer.js";
import type { TokenizedExample } from "./dataset.js";
import type { TrainingContext } from "./training-context.js";
import type { TrainingJob } from "./training-job.js";

/** Tensors by parameter name. */
export type NamedTensors = ReadonlyMap<string, Tensor>;

/** Forward passes that methods share: several methods of a stack can use the same pass. */
export type SharedPass = "clean" | "again" | "perturbed" | "search" | "observed" | "observed-again";

/**
 * The name of a forward pass: a shared pass, two passes that run as one batch, or a pass of one
 * method (`METHOD.PASS`). The name seeds the random stream of the pass, so it is part of the
 * results.
 */
export type PassName = SharedPass | `${SharedPass}+${SharedPass}` | `${string}.${string}`;

/** A forward pass that is about to run. */
export interface ForwardPass {
  readonly name: PassName;
  readonly mode: ForwardMode;
  readonly context: BatchContext;
}

/** Loss terms by name, each already multiplied by its weight. The total loss is their sum. */
export type Losses = ReadonlyMap<string, Tensor>;

/** The gradients of one batch. */
export interface Gradients {
  readonly losses: Losses;
  /** Gradients of the total loss, for every parameter and every extra leaf of the batch. */
  readonly total: NamedTensors;
  /** Gradients of single terms, for a method's `transformUpdates` (ROSE: its masks). */
  readonly auxiliary: ReadonlyMap<string, NamedTensors>;
  /** Whether the total is already the sum over all processes. */
  readonly isTotalReduced?: boolean;
}

/** One optimizer step, after gradient clipping and before the parameters change. */
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

/** What an optimizer step does to each parameter. */
export type ParameterUpdates = Map<string, ParameterUpdate>;

/** Tensors that a method owns. They are saved and restored with the model. */
export interface MethodState {
  /** Trained together with the model's weights. */
  readonly parameters?: NamedTensors;
  readonly buffers?: NamedTensors;
}

/** What the trainer must know about a method besides its mathematics. */
export interface MethodTraits {
  /**
   * Roles that only one method of a stack can have, with what the method does in that role.
   * "adversary" perturbs the text; "selection" decides which parameters change; "examples" replaces
   * the texts.
   */
  readonly exclusiveRoles?: Readonly<Partial<Record<"adversary" | "selection" | "examples", string>>>;
  /** True if the method runs the clean text twice as one batch (`passTwice`). */
  readonly usesTwoPasses?: boolean;
  /** Why the loss needs the complete batch. Such a batch cannot be split into micro-batches. */
  readonly requiresFullBatch?: string;
  /**
   * How several processes can share a batch. "mean": every loss is a mean over the batch or does
   * not depend on it, so the sum of the processes is exact. "gathered": the method collects what
   * its loss needs (`context.gatherRows`). A method that says nothing runs in one process only.
   */
  readonly acrossProcesses?: "mean" | "gathered";
  /**
   * True if the `gradients` hook returns the total of `next` unchanged, so that several processes
   * can sum it during the backward pass.
   */
  readonly keepsTotalGradients?: boolean;
  /** Why the method needs float32 instead of bfloat16. */
  readonly requiresFloat32?: string;
  /**
   * The parameters for which the method needs the gradients of the task loss alone, or null. They
   * are in `auxiliaryGradients` under "task" if the total loss has more terms.
   */
  readonly needsTaskGradients?: (context: BatchContext) => NamedTensors | null;
  /** Identifies the work of a step. Steps with equal keys can share one captured CUDA graph. */
  readonly graphKey?: (stepIndex: number) => string;
}

/**
 * A fine-tuning method. Methods are stacked: each hook may call `next` for the result of the
 * methods below it. Hooks only use tensors and never wait for the device, so that a complete
 * step can be captured as a CUDA graph.
 */
export interface TrainingMethod {
  readonly name: string;
  readonly traits?: MethodTraits;
  /** Returns why this method cannot run on top of the inner methods, or null if it can. */
  checkCompatibility?(innerMethods: readonly TrainingMethod[], job: TrainingJob): string | null;
  /** Runs once before training, while the model still has its pre-trained weights. */
  prepare?(training: TrainingContext): Promise<void>;
  state?(): MethodState;
  /**
   * Replaces the examples of the training or the validation split before they are tokenized, such
   * as each text by parts of it. The number of examples may change.
   */
  transformExamples?(examples: readonly Example[], task: Task, rng: Rng): readonly Example[];
  /** Adds arrays to a batch on the host; the passes read them with `batch.getExtra(name)`. */
  collate?(batch: HostBatch): Readonly<Record<string, HostTensor>>;
  /** The weights that a forward pass uses. */
  weights?(pass: ForwardPass, next: () => Weights): Weights;
  losses?(context: BatchContext, next: (context?: BatchContext) => Losses): Losses;
  gradients?(context: BatchContext, next: (context?: BatchContext) => Gradients): Gradients;
  transformUpdates?(step: OptimizerStep, next: () => ParameterUpdates): ParameterUpdates;
  afterStep?(step: OptimizerStep, next: () => void): void;
  /** Additional validation metrics (ASCC: accuracy under its attack). */
  extraMetrics?(
    training: TrainingContext,
    items: readonly TokenizedExample[],
  ): Promise<Readonly<Record<string, number>>>;
  /** The metrics of `extraMetrics` whose lower values are better, such as an error rate. */
  readonly lowerIsBetter?: readonly string[];
}

export type { HostTensor };
