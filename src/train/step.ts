import { type EncoderInput, forward, type Output } from "../models/index.js";
import { type Mode, training, type Weights } from "../nn/index.js";
import { cat, type DataType, scope, type Tensor } from "../tensor/index.js";
import { castWeights } from "./cast.js";
import type { Batch, Named, Pass, PassRequest, Run, Step } from "./layer.js";
import type { Stack } from "./stack.js";
import type { Streams } from "./streams.js";

/** What a step needs besides its batch. */
export interface StepContext {
  readonly run: Run;
  readonly stack: Stack;
  readonly streams: Streams;
  /** The type that matrices are multiplied in; the leaves stay float32. */
  readonly compute: DataType;
  log(name: string, value: Tensor): void;
}

export function openStep(context: StepContext, batch: Batch, number: number): Step {
  return new TrainingStep(context, batch, number, batch.input);
}

class TrainingStep implements Step {
  readonly #context: StepContext;
  #input: EncoderInput;
  readonly #passes = new Map<string, Output>();
  readonly #weights = new Map<string, Weights>();
  readonly #cast = new Map<Weights, Weights>();
  readonly batch: Batch;
  readonly number: number;
  readonly leaves: Named;

  constructor(context: StepContext, batch: Batch, number: number, input: EncoderInput, leaves: Named = new Map()) {
    this.#context = context;
    this.#input = input;
    this.batch = batch;
    this.number = number;
    this.leaves = leaves;
  }

  get run(): Run {
    return this.#context.run;
  }

  pass(name: string, request: PassRequest = {}): Output {
    const known = this.#passes.get(name);
    if (known) return known;
    const mode = request.mode ?? training;
    const output = this.#forward(name, request, mode);
    this.#passes.set(name, output);
    return output;
  }

  has(name: string): boolean {
    return this.#passes.has(name);
  }

  pair(first: string, second: string): readonly [Output, Output] {
    const known = [this.#passes.get(first), this.#passes.get(second)];
    if (known[0] && known[1]) return [known[0], known[1]];
    const double = this.#forward(`${first}+${second}`, { input: doubled(this.#input) }, training);
    const half = (start: number): Output => ({
      logits: double.logits.narrow(0, start, this.batch.rows),
      feature: double.feature.narrow(0, start, this.batch.rows),
    });
    const outputs = [half(0), half(this.batch.rows)] as const;
    this.#passes.set(first, outputs[0]).set(second, outputs[1]);
    return outputs;
  }

  #forward(name: string, request: PassRequest, mode: Mode): Output {
    const weights = request.weights ? this.#inComputeType(request.weights) : this.weights(name, mode);
    this.random(request.stream ?? name);
    const used = this.run.settings.dropout ? mode : { ...mode, training: false };
    // What autograd does not need of the pass goes at once.
    return scope(() => forward(this.run.model.shape, weights, request.input ?? this.#input, used));
  }

  weights(name: string, mode: Mode): Weights {
    const key = `${name} ${mode.training}`;
    const known = this.#weights.get(key);
    if (known) return known;
    const pass: Pass = { name, mode, step: this };
    const weights = this.#inComputeType(this.#context.stack.weights(pass, this.run.model.weights));
    this.#weights.set(key, weights);
    return weights;
  }

  /** Cast once a step, however many passes use them. */
  #inComputeType(weights: Weights): Weights {
    if (this.#context.compute === "float32") return weights;
    if (weights === this.run.model.weights && this.run.shadow) return this.run.shadow.weights;
    const known = this.#cast.get(weights);
    if (known) return known;
    const cast = castWeights(this.run.model.shape.config, weights, this.#context.compute);
    this.#cast.set(weights, cast);
    return cast;
  }

  random(...names: string[]): void {
    const { part } = this.batch;
    this.#context.streams.enter(this.number, part === 0 ? names : [...names, `part ${part}`]);
  }

  derive(input: (derived: Step) => EncoderInput, leaves?: Named): Step {
    const derived = new TrainingStep(this.#context, this.batch, this.number, this.#input, leaves);
    derived.#input = input(derived);
    return derived;
  }

  log(name: string, value: Tensor): void {
    this.#context.log(name, value);
  }
}

/** An input twice over, in one batch. */
function doubled(input: EncoderInput): EncoderInput {
  const twice = (tensor: Tensor | null | undefined): Tensor | null => (tensor ? cat([tensor, tensor], 0) : null);
  const shared = { bias: twice(input.bias), types: twice(input.types) };
  if ("ids" in input) return { ...shared, ids: cat([input.ids, input.ids], 0) };
  if ("words" in input) return { ...shared, words: cat([input.words, input.words], 0) };
  return { ...shared, embedded: cat([input.embedded, input.embedded], 0) };
}
