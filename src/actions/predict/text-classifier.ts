import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../../errors.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { type Callbacks, warn } from "../../events.js";
import {
  type Classifier,
  classify,
  closeModel,
  createClassifier,
  isHeadParameter,
  type Model,
  tokenizeAll,
} from "../../models/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import { type RuntimeConfig, type RuntimeOptions, runtimeSchema } from "../../runs/runtime-config.js";
import { validate } from "../../validate.js";
import { loadLocalModel } from "../load/load-local-model.js";

/**
 * What a model says about a text or a pair.
 *
 *     const [{ label, probabilities }] = await model.classify(["a quiet film"]);
 */
export interface Prediction {
  readonly label: string;
  /** By label, in the model's order. */
  readonly probabilities: Readonly<Record<string, number>>;
  /** True if the end of the text was cut off. */
  readonly truncated: boolean;
}

export type LoadClassifierOptions = RuntimeOptions & Pick<Callbacks, "onEvent">;

/** What `predict` accepts. */
export const predictRequestSchema = runtimeSchema.extend({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  flushWhenIdle: z.boolean().default(false).describe("classify what is there when no more input arrives for a moment"),
});
export type PredictRequest = z.input<typeof predictRequestSchema>;

/**
 * Texts that are sorted by length together: enough to avoid most padding, few enough to stay small.
 */
const windowSize = 512;
const idleMilliseconds = 20;

/**
 * A model with a classification head, ready to classify. Free it with `await using` or `close()`.
 *
 *     await using model = await loadClassifier("runs/reviews");
 *     const [first] = await model.classify(["a quiet film"]);
 *     console.log(first.label, first.probabilities);
 */
export class TextClassifier implements AsyncDisposable {
  /** Casting weights and capturing CUDA graphs takes longer than classifying a few texts. */
  #classifier: Classifier | null = null;
  #isClosed = false;

  constructor(
    readonly model: Model,
    readonly runtime: RuntimeConfig,
  ) {}

  /** The class names in the model's order. */
  get labels(): readonly string[] {
    return this.model.labels;
  }

  /** Classifies texts or pairs of texts. Row i of the result belongs to text i. */
  async classify(texts: readonly (string | readonly [string, string])[]): Promise<Prediction[]> {
    if (!Array.isArray(texts))
      throw new UserError(`classify: expected a list of texts, received ${typeof texts}. Pass ["a text"].`);
    return this.#classify(
      texts.map((text: string | readonly [string, string]) => (typeof text === "string" ? [text] : text)),
    );
  }

  /** Classifies a stream of texts in order, in batches. */
  async *stream<T extends { readonly texts: readonly string[] }>(
    inputs: AsyncIterable<T>,
    options: { readonly flushWhenIdle?: boolean } = {},
  ): AsyncGenerator<Prediction & { readonly input: T }> {
    for await (const window of collectWindows(inputs, options.flushWhenIdle === true)) {
      const predictions = await this.#classify(window.map(({ texts }) => texts));
      for (const [i, input] of window.entries()) yield { input, ...predictions[i]! };
    }
  }

  async #classify(inputs: readonly (readonly string[])[]): Promise<Prediction[]> {
    if (this.#isClosed) throw new UserError("This model is closed. Load it again with loadClassifier().");
    const { labels, weights } = this.model;
    const encodings = tokenizeAll(this.model, inputs);
    this.#classifier ??= createClassifier(this.model, weights, this.runtime);
    const rows = await classify(this.#classifier, encodings);
    return rows.map((row, i) => ({
      label: labels[toPredictions([row])[0]!]!,
      probabilities: Object.fromEntries(labels.map((label, index) => [label, row[index]!])),
      truncated: encodings[i]!.truncated,
    }));
  }

  /** Frees the model. It cannot be used afterwards. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#classifier?.close();
    closeModel(this.model);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}

/**
 * Loads a classifier from a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID.
 *
 *     await using model = await loadClassifier("runs/reviews", { device: "cpu" });
 *     console.log(model.labels);
 */
export async function loadClassifier(reference: string, options: LoadClassifierOptions = {}): Promise<TextClassifier> {
  const { onEvent, ...given } = options;
  if (/^https?:/.test(reference))
    throw new UserError(
      `${reference}: expected a model, received an endpoint. Only attack and verify query endpoints.`,
    );
  const parsed = validate(runtimeSchema, given, "loadClassifier");
  const { model, runtime } = await loadLocalModel(reference, { ...parsed, onEvent });
  if (!model.newlyInitialized.some(isHeadParameter)) return new TextClassifier(model, runtime);
  closeModel(model);
  throw new UserError(
    `${reference} has no classification head. Train one first: temper train --model ${reference} --task …`,
  );
}

/**
 * Classifies a stream of texts in order, in batches. The model is loaded at the start and freed at
 * the end.
 *
 *     for await (const { input, label } of predict({ model: "runs/reviews" }, inputs))
 *       console.log(label, input.texts);
 */
export async function* predict<T extends { readonly texts: readonly string[] }>(
  request: PredictRequest,
  inputs: AsyncIterable<T>,
  callbacks: Callbacks = {},
): AsyncGenerator<Prediction & { readonly input: T }> {
  const { model, flushWhenIdle, ...runtime } = validate(predictRequestSchema, request, "predict");
  await using classifier = await loadClassifier(model, { ...runtime, onEvent: callbacks.onEvent });
  // A single text and a pair are different tasks, and the model would answer either.
  const expected = (await findTextColumns(classifier.model.folder)).length;
  let truncated = 0;
  for await (const prediction of classifier.stream(checkTextCounts(inputs, expected, model), { flushWhenIdle })) {
    if (prediction.truncated) truncated++;
    yield prediction;
  }
  const { maxLength } = classifier.model;
  if (truncated > 0)
    warn(callbacks, `${truncated} ${truncated === 1 ? "text was" : "texts were"} truncated to ${maxLength} tokens.`);
}

async function* checkTextCounts<T extends { readonly texts: readonly string[]; readonly line?: number }>(
  inputs: AsyncIterable<T>,
  expected: number,
  model: string,
): AsyncGenerator<T> {
  for await (const input of inputs) {
    const count = input.texts.length;
    if (expected > 0 && count !== expected)
      throw new UserError(
        `${model} was trained on ${expected === 1 ? "single texts" : "pairs of texts"}, but ` +
          `${input.line === undefined ? "an input" : `line ${input.line}`} has ${count === 1 ? "one text" : "a pair"}.`,
      );
    yield input;
  }
}

/** The text columns that the run of a model was trained with; none if they are unknown. */
export async function findTextColumns(reference: string): Promise<readonly string[]> {
  const run = await RunFolder.containing(reference);
  return run?.config.task === null ? run.config.textColumn : [];
}

type Arrival<T> = IteratorResult<T> | { readonly done: true; readonly error: unknown };

/**
 * Groups a stream into windows. With `flushWhenIdle`, a window ends when no more input arrives for
 * a moment.
 */
async function* collectWindows<T>(inputs: AsyncIterable<T>, flushWhenIdle: boolean): AsyncGenerator<T[]> {
  const source = inputs[Symbol.asyncIterator]();
  // The next input is requested ahead, so an error may arrive while a window is classified: it
  // waits for its turn.
  const readNext = (): Promise<Arrival<T>> => source.next().catch((error: unknown) => ({ done: true, error }));
  let window: T[] = [];
  let deadline: Promise<null> | null = null;
  for (let next = readNext(); ; ) {
    const arrived: Arrival<T> | null = await (deadline ? Promise.race([next, deadline]) : next);
    if (arrived && !arrived.done) {
      window.push(arrived.value);
      next = readNext();
      if (flushWhenIdle) deadline ??= delay(idleMilliseconds, null);
    }
    if (window.length === windowSize || (window.length > 0 && (!arrived || arrived.done))) {
      yield window;
      window = [];
      deadline = null;
    }
    if (arrived && "error" in arrived) throw arrived.error;
    if (arrived?.done) return;
  }
}
