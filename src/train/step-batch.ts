import { duplicatePacking, type EncoderInput, forward, type ModelOutput } from "../models/index.js";
import { type ForwardMode, trainMode, type Weights } from "../nn/index.js";
import { cat, scope, type Tensor } from "../tensor/index.js";
import type { Batch } from "./batch.js";
import type { MethodStack } from "./method-stack.js";
import { castWeights, computeGradients, type LowPrecisionWeights } from "./mixed-precision.js";
import type { RandomStreams } from "./random-streams.js";
import type { Ranks } from "./ranks.js";
import type { BatchContext, ForwardPassOptions, NamedTensors, PassName, TrainingContext } from "./training-method.js";

/** A training as its batches see it; methods see less. */
export interface BatchTraining extends TrainingContext {
  readonly ranks: Ranks;
  readonly streams: RandomStreams;
  readonly stack: MethodStack;
  readonly lowPrecisionWeights: LowPrecisionWeights | null;
}

/** Computes one batch of a training. The random streams depend on the batch and on names. */
export class StepBatch implements BatchContext {
  readonly training: BatchTraining;
  readonly batch: Batch;
  readonly batchIndex: number;
  readonly stepIndex: number;
  readonly extraLeaves: NamedTensors;
  readonly keepsGradientDtype: boolean;
  readonly #stack: MethodStack;
  readonly #log: (name: string, value: Tensor) => void;
  #input: EncoderInput;
  readonly #passes = new Map<PassName, ModelOutput>();
  readonly #passOptions = new Map<PassName, ForwardPassOptions>();
  readonly #weights = new Map<string, Weights>();
  readonly #castWeights = new Map<Weights, Weights>();

  constructor(
    training: BatchTraining,
    batch: Batch,
    batchIndex: number,
    options: {
      readonly stack?: MethodStack;
      readonly input?: EncoderInput;
      readonly extraLeaves?: NamedTensors;
      readonly log?: (name: string, value: Tensor) => void;
      readonly keepsGradientDtype?: boolean;
    } = {},
  ) {
    this.training = training;
    this.batch = batch;
    this.batchIndex = batchIndex;
    this.stepIndex = Math.floor(batchIndex / training.job.settings.gradientAccumulationSteps);
    this.extraLeaves = options.extraLeaves ?? new Map();
    this.keepsGradientDtype = options.keepsGradientDtype ?? false;
    this.#stack = options.stack ?? training.stack;
    this.#log = options.log ?? (() => {});
    this.#input = options.input ?? batch.input;
  }

  pass(name: PassName, options: ForwardPassOptions = {}): ModelOutput {
    const known = this.#passes.get(name);
    if (known) return known;
    const output = this.#forward(name, options);
    this.#passes.set(name, output);
    this.#passOptions.set(name, options);
    return output;
  }

  repeatPass(name: PassName, newName: PassName): ModelOutput {
    return this.pass(newName, this.#passOptions.get(name));
  }

  hasPass(name: PassName): boolean {
    return this.#passes.has(name);
  }

  passTwice(first: PassName, second: PassName): readonly [ModelOutput, ModelOutput] {
    const known = [this.#passes.get(first), this.#passes.get(second)];
    if (known[0] && known[1]) return [known[0], known[1]];
    const both = this.#forward(`${first}+${second}`, { input: duplicateInput(this.#input) });
    const count = both.logits.size(0) / 2;
    const half = (start: number): ModelOutput => ({
      logits: both.logits.narrow(0, start, count),
      features: both.features.narrow(0, start, count),
    });
    const outputs = [half(0), half(count)] as const;
    this.#passes.set(first, outputs[0]).set(second, outputs[1]);
    return outputs;
  }

  #forward(name: PassName, options: ForwardPassOptions): ModelOutput {
    const { model } = this.training.job;
    const mode = options.mode ?? trainMode;
    const input = typeof options.input === "function" ? options.input(name) : (options.input ?? this.#input);
    const weights = options.weights ? this.#toComputeDtype(options.weights) : this.weights(name, mode);
    this.enterRandomStream(options.randomStream ?? name);
    // The scope frees every intermediate tensor that autograd does not need.
    return scope(() => forward(model.architecture, weights, input, this.resolveMode(mode)));
  }

  resolveMode({ training }: ForwardMode): ForwardMode {
    return { training: training && this.training.job.settings.dropout };
  }

  weights(name: PassName, mode: ForwardMode): Weights {
    const key = `${name} ${mode.training}`;
    const known = this.#weights.get(key);
    if (known) return known;
    const pass = { name, mode, context: this };
    const weights = this.#toComputeDtype(this.#stack.weights(pass, this.training.job.model.weights));
    this.#weights.set(key, weights);
    return weights;
  }

  /** Casts weights once per batch, even if several passes use them. */
  #toComputeDtype(weights: Weights): Weights {
    const { lowPrecisionWeights } = this.training;
    const { model, deviceConfig } = this.training.job;
    if (deviceConfig.computeDtype === "float32") return weights;
    if (weights === model.weights && lowPrecisionWeights) return lowPrecisionWeights.weights;
    const known = this.#castWeights.get(weights);
    if (known) return known;
    const cast = castWeights(model.architecture.config, weights, deviceConfig.computeDtype);
    this.#castWeights.set(weights, cast);
    return cast;
  }

  computeGradients(loss: Tensor, parameters: NamedTensors, retainGraph = false, keepsDtype = false): NamedTensors {
    const { lowPrecisionWeights } = this.training;
    const options = { retainGraph, keepsDtype };
    return computeGradients(loss, parameters, lowPrecisionWeights, options);
  }

  enterRandomStream(...names: string[]): void {
    const { streams, ranks } = this.training;
    // Each process draws its own dropout masks. Those of process 0 are the masks of a single process.
    const rank = ranks.rank === 0 ? [] : [`rank ${ranks.rank}`];
    streams.enter(this.batchIndex, [...names, ...rank]);
  }

  withInput(createInput: (derived: BatchContext) => EncoderInput, extraLeaves: NamedTensors = new Map()): BatchContext {
    const options = { stack: this.#stack, log: this.#log, input: this.#input, extraLeaves };
    const derived = new StepBatch(this.training, this.batch, this.batchIndex, options);
    derived.#input = createInput(derived);
    return derived;
  }

  log(name: string, value: Tensor): void {
    this.#log(name, value);
  }
}

function duplicateInput(input: EncoderInput): EncoderInput {
  const duplicate = (tensor: Tensor): Tensor => cat([tensor, tensor], 0);
  const shared = {
    attentionBias: input.attentionBias ? duplicate(input.attentionBias) : null,
    tokenTypeIds: input.tokenTypeIds ? duplicate(input.tokenTypeIds) : null,
    packing: input.packing ? duplicatePacking(input.packing) : null,
  };
  if ("inputIds" in input) return { ...shared, inputIds: duplicate(input.inputIds) };
  if ("wordEmbeddings" in input) return { ...shared, wordEmbeddings: duplicate(input.wordEmbeddings) };
  return { ...shared, embeddingOutput: duplicate(input.embeddingOutput) };
}
