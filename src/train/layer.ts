import type { EncoderInput, TokenInput } from "../models/index.js";
import type { Model, Output } from "../models/model.js";
import type { AdamW, Change, Mode, Weights } from "../nn/index.js";
import type { Task } from "../tasks/task.js";
import type { DataType, Device, HostTensor, Rng, Tensor } from "../tensor/index.js";
import type { Padded } from "../text/batch.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Dataset, Item } from "./dataset.js";
import type { TrainSettings } from "./settings.js";
import type { Shadow } from "./shadow.js";

/** Tensors under the names of parameters. */
export type Named = ReadonlyMap<string, Tensor>;

export type { HostTensor };

/** A batch before it is on the device. */
export interface HostBatch {
  /** Positions in the data set. */
  readonly indices: Int32Array;
  readonly items: readonly Item[];
  readonly padded: Padded;
  /** Where a batch had to be cut in parts: which one, from 0. The others follow the first. */
  readonly part: number;
}

/** A batch on the device. What layers add in `collate` lies in `extra`, under the names they gave. */
export interface Batch {
  readonly input: TokenInput;
  readonly labels: Tensor; // [batch]
  readonly rows: number;
  readonly length: number;
  readonly part: number;
  extra(name: string): Tensor;
}

/** The whole of a training run, as layers see it. */
export interface Run {
  readonly model: Model;
  readonly task: Task;
  readonly settings: TrainSettings;
  readonly device: Device;
  /** The type that matrices are multiplied in. */
  readonly compute: DataType;
  /** The weights in that type, refreshed before each update; null where it is the weights' own. */
  readonly shadow: Shadow | null;
  readonly rng: Rng;
  /** The methods, innermost first. */
  readonly layers: readonly Layer[];
  readonly dataset: Dataset;
  /** Updates planned in all. */
  readonly updates: number;
  /** All that is trained: the model's weights and the layers' own parameters. */
  readonly parameters: Named;
  /** What a resumed run found in its checkpoint under the layers' names; null in a new run. */
  readonly restored: Named | null;
  /** A frozen copy of the weights as they were before the first update. */
  pretrained(): Weights;
  /** The substitution set of the run; an error where none was named. */
  substitutions(): Promise<Substitutions>;
  /** Batches of the training data in a fixed order, seen by the model alone, for a pass before training (Child-Tuning's Fisher). */
  eachBatch(visit: (step: Step) => void, label: string): Promise<void>;
  /** Nothing of the run will be used: a pass over all data may end early. */
  readonly trial: boolean;
  /** Says how far a longer piece of work beside the updates is; throws where the run was stopped meanwhile. */
  working(label: string, done: number, total: number): void;
  notice(message: string): void;
}

export interface PassRequest {
  /** Another input than the batch's own. */
  readonly input?: EncoderInput;
  /** Weights as they are, past every layer's `weights` (a teacher, a slow copy). */
  readonly weights?: Weights;
  readonly mode?: Mode;
  /** A random stream other than the pass's own name, to share dropout masks between passes. */
  readonly stream?: string;
}

/** A forward pass that is about to run. */
export interface Pass {
  readonly name: string;
  readonly mode: Mode;
  readonly step: Step;
}

/** One batch on its way through the losses. */
export interface Step {
  readonly run: Run;
  readonly batch: Batch;
  /** Counts batches from 0 over the whole run; the parts of one share its number. */
  readonly number: number;
  /** Runs a forward pass once and remembers it. Weights come from the outermost layer down, so Mixout over ASCC reaches its passes too. */
  pass(name: string, request?: PassRequest): Output;
  /** Two passes of the batch with different dropout, run as one batch of double size. */
  pair(first: string, second: string): readonly [Output, Output];
  /** Whether a pass of that name has run. */
  has(name: string): boolean;
  /** The weights that a pass of that name uses, in the type it computes in: asked for twice, they are the same tensors. */
  weights(name: string, mode: Mode): Weights;
  /** Points the device's generator at the stream (seed, step, names): what is drawn next depends on nothing else. */
  random(...names: string[]): void;
  /** Leaves besides the parameters whose gradients are wanted with theirs, under names of their own. */
  readonly leaves: Named;
  /** The same batch read from another input (which may use the new step's weights), nothing remembered; random streams stay the same. */
  derive(input: (derived: Step) => EncoderInput, leaves?: Named): Step;
  /** A number for the events, read when events are written. */
  log(name: string, value: Tensor): void;
}

/** Loss terms by name, each with its weight in it; the total is their sum. */
export type Losses = ReadonlyMap<string, Tensor>;

export interface Gradients {
  readonly losses: Losses;
  /** Of the total, for every parameter and the step's own leaves. */
  readonly total: Named;
  /** Of single terms, under names that a layer's `select` knows (ROSE: the consistency term's). */
  readonly others: ReadonlyMap<string, Named>;
}

/** One update of the parameters, after clipping. */
export interface Update {
  readonly run: Run;
  /** Counts updates from 0. */
  readonly number: number;
  readonly gradients: Named;
  readonly others: ReadonlyMap<string, Named>;
  readonly optimizer: AdamW;
  random(...names: string[]): void;
  log(name: string, value: Tensor): void;
}

export type Selected = Map<string, Change>;

/** What a layer owns beyond the model: trained, saved and resumed with it. */
export interface LayerState {
  readonly parameters?: Named;
  readonly buffers?: Named;
}

/**
 * A method: a layer that takes over some decisions of a training step and leaves the rest to the layers beneath (`next`).
 * It sees tensors only and never waits for the device, so that the whole step can be captured.
 */
export interface Layer {
  readonly name: string;
  /** Roles that only one layer of a run can have, each with what it does ("adversary": "searches its own perturbation"). */
  readonly owns?: Readonly<Record<string, string>>;
  /** True where it runs the clean text twice, as one batch (`step.pair`): layers over it then find both passes. */
  readonly twice?: boolean;
  /** Why this layer cannot work over the ones beneath it, or null. */
  refuses?(beneath: readonly Layer[], run: Pick<Run, "model" | "task" | "settings" | "compute">): string | null;
  /** Why its loss needs all of a batch at once, where it does: such a batch cannot be halved. */
  readonly wholeBatch?: string;
  /** Why it needs float32, where bfloat16 would lose what it does. */
  readonly needsFloat32?: string;
  prepare?(run: Run): Promise<void>;
  state?(): LayerState;
  /** Adds numbers of its own to a batch on the host. */
  collate?(batch: HostBatch): Readonly<Record<string, HostTensor>>;
  weights?(pass: Pass, next: () => Weights): Weights;
  losses?(step: Step, next: (step?: Step) => Losses): Losses;
  gradients?(step: Step, next: (step?: Step) => Gradients): Gradients;
  select?(update: Update, next: () => Selected): Selected;
  after?(update: Update, next: () => void): void;
  /** Values that decide which captured graph fits this step (ROSE: first step, refresh): steps with equal keys do the same work. */
  phase?(update: number): string;
  /** The metric of its `evaluate` that a run with it is selected by, unless the run names another. */
  readonly selectBy?: string;
  /** Further dev metrics (ASCC: accuracy under its attack). */
  evaluate?(run: Run, items: readonly Item[]): Promise<Readonly<Record<string, number>>>;
}
