import { type EncoderInput, forward, type ModelOutput } from "../models/index.js";
import { type ForwardMode, trainMode, type Weights } from "../nn/index.js";
import { cat, type DType, scope, type Tensor } from "../tensor/index.js";
import { castWeights } from "./cast.js";
import type { MethodStack } from "./method-stack.js";
import type { RandomStreams } from "./random-streams.js";
import type {
  Batch,
  BatchContext,
  ForwardPass,
  ForwardPassOptions,
  NamedTensors,
  TrainingContext,
} from "./training-method.js";

/** What a step needs besides its batch. */
export interface BatchContextDependencies {
  readonly run: TrainingContext;
  readonly stack: MethodStack;
  readonly streams: RandomStreams;
  /** The type that matrices are multiplied in; the leaves stay float32. */
  readonly computeDtype: DType;
  log(name: string, value: Tensor): void;
}

export function createBatchContext(context: BatchContextDependencies, batch: Batch, number: number): BatchContext {
  return new TrainingBatchContext(context, batch, number, batch.input);
}

class TrainingBatchContext implements BatchContext {
  readonly #context: BatchContextDependencies;
  #input: EncoderInput;
  readonly #passes = new Map<string, ModelOutput>();
  readonly #weights = new Map<string, Weights>();
  readonly #cast = new Map<Weights, Weights>();
  readonly batch: Batch;
  readonly batchIndex: number;
  readonly extraLeaves: NamedTensors;

  constructor(
    context: BatchContextDependencies,
    batch: Batch,
    number: number,
    input: EncoderInput,
    leaves: NamedTensors = new Map(),
  ) {
    this.#context = context;
    this.#input = input;
    this.batch = batch;
    this.batchIndex = number;
    this.extraLeaves = leaves;
  }

  get run(): TrainingContext {
    return this.#context.run;
  }

  pass(name: string, request: ForwardPassOptions = {}): ModelOutput {
    const known = this.#passes.get(name);
    if (known) return known;
    const mode = request.mode ?? trainMode;
    const output = this.#forward(name, request, mode);
    this.#passes.set(name, output);
    return output;
  }

  hasPass(name: string): boolean {
    return this.#passes.has(name);
  }

  passTwice(first: string, second: string): readonly [ModelOutput, ModelOutput] {
    const known = [this.#passes.get(first), this.#passes.get(second)];
    if (known[0] && known[1]) return [known[0], known[1]];
    const double = this.#forward(`${first}+${second}`, { input: duplicateInput(this.#input) }, trainMode);
    const half = (start: number): ModelOutput => ({
      logits: double.logits.narrow(0, start, this.batch.batchSize),
      features: double.features.narrow(0, start, this.batch.batchSize),
    });
    const outputs = [half(0), half(this.batch.batchSize)] as const;
    this.#passes.set(first, outputs[0]).set(second, outputs[1]);
    return outputs;
  }

  #forward(name: string, request: ForwardPassOptions, mode: ForwardMode): ModelOutput {
    const weights = request.weights ? this.#toComputeDtype(request.weights) : this.weights(name, mode);
    this.enterRandomStream(request.randomStream ?? name);
    const used = this.run.settings.dropout ? mode : { ...mode, training: false };
    // What autograd does not need of the pass goes at once.
    return scope(() => forward(this.run.model.architecture, weights, request.input ?? this.#input, used));
  }

  weights(name: string, mode: ForwardMode): Weights {
    const key = `${name} ${mode.training}`;
    const known = this.#weights.get(key);
    if (known) return known;
    const pass: ForwardPass = { name, mode, context: this };
    const weights = this.#toComputeDtype(this.#context.stack.weights(pass, this.run.model.weights));
    this.#weights.set(key, weights);
    return weights;
  }

  /** Cast once a step, however many passes use them. */
  #toComputeDtype(weights: Weights): Weights {
    if (this.#context.computeDtype === "float32") return weights;
    if (weights === this.run.model.weights && this.run.lowPrecisionWeights) return this.run.lowPrecisionWeights.weights;
    const known = this.#cast.get(weights);
    if (known) return known;
    const cast = castWeights(this.run.model.architecture.config, weights, this.#context.computeDtype);
    this.#cast.set(weights, cast);
    return cast;
  }

  enterRandomStream(...names: string[]): void {
    const { microBatchIndex: part } = this.batch;
    this.#context.streams.enter(this.batchIndex, part === 0 ? names : [...names, `part ${part}`]);
  }

  withInput(input: (derived: BatchContext) => EncoderInput, leaves?: NamedTensors): BatchContext {
    const derived = new TrainingBatchContext(this.#context, this.batch, this.batchIndex, this.#input, leaves);
    derived.#input = input(derived);
    return derived;
  }

  log(name: string, value: Tensor): void {
    this.#context.log(name, value);
  }
}

/** An input twice over, in one batch. */
function duplicateInput(input: EncoderInput): EncoderInput {
  const duplicate = (tensor: Tensor | null | undefined): Tensor | null => (tensor ? cat([tensor, tensor], 0) : null);
  const shared = { attentionBias: duplicate(input.attentionBias), tokenTypeIds: duplicate(input.tokenTypeIds) };
  if ("inputIds" in input) return { ...shared, inputIds: cat([input.inputIds, input.inputIds], 0) };
  if ("wordEmbeddings" in input)
    return { ...shared, wordEmbeddings: cat([input.wordEmbeddings, input.wordEmbeddings], 0) };
  return { ...shared, embeddingOutput: cat([input.embeddingOutput, input.embeddingOutput], 0) };
}
