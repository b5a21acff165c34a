import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { validate } from "../../base/validate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { closeModel, isHeadParameter, type Model } from "../../models/index.js";
import {
  createModelPredictor,
  type ModelPredictor,
  type Predictor,
  type PreparedText,
} from "../../models/inference/predictor.js";
import type { CertifiedEdits } from "../../proofs/certificates/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import { type RuntimeConfig, type RuntimeOptions, runtimeSchema } from "../../settings/runtime-config.js";
import { findHiddenText, type HiddenText } from "../../text/hidden-text.js";
import { loadLocalModel } from "../load/load-local-model.js";
import { type CertifiedUse, findCertifiedUse, type GuardChoice, type UsedAnswer, wrapUse } from "./certified-model.js";

/**
 * The answer of a model for a text or a pair.
 *
 *     const [first] = await model.classify(["a quiet film"]);
 *     console.log(first?.label, first?.probabilities);
 */
export interface Prediction {
  readonly label: string;
  readonly probabilities: Readonly<Record<string, number>>;
  /** True if the end of the text was cut off. */
  readonly truncated: boolean;
  /** For a model with certified predictions: the number of word edits that cannot change it. */
  readonly certified?: CertifiedEdits;
  /** For a run with a threshold, or with windows: whether the text is flagged. */
  readonly flagged?: boolean;
  /** Text that a language model reads, but a person does not see: Unicode tags, bits without width, … */
  readonly hidden?: HiddenText;
}

export type LoadClassifierOptions = RuntimeOptions & GuardChoice & Pick<Callbacks, "onEvent">;

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
 *     console.log(first?.label, first?.probabilities);
 */
export class TextClassifier implements AsyncDisposable {
  readonly base: ModelPredictor;
  readonly predictor: Predictor<PreparedText, UsedAnswer>;
  #isClosed = false;

  constructor(
    readonly model: Model,
    readonly runtime: RuntimeConfig,
    readonly use: CertifiedUse = { certified: null, guard: null },
  ) {
    this.base = createModelPredictor(model, runtime);
    this.predictor = wrapUse(this.base, use);
  }

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

  async *stream<T extends { readonly texts: readonly string[] }>(
    inputs: AsyncIterable<T>,
    options: { readonly flushWhenIdle?: boolean } = {},
  ): AsyncGenerator<Prediction & { readonly input: T }> {
    for await (const window of collectWindows(inputs, options.flushWhenIdle === true)) {
      const predictions = await this.#classify(window.map(({ texts }) => texts));
      for (const [i, input] of window.entries()) yield { input, ...predictions[i]! };
    }
  }

  /** The class probabilities of texts, without any vote. Row i of the result belongs to text i. */
  async score(texts: readonly (readonly string[])[], onScored?: (done: number) => void): Promise<ArrayLike<number>[]> {
    const answers = await this.base.predict(this.base.prepare(texts), { onBatch: onScored });
    return answers.map(({ probabilities }) => probabilities);
  }

  async #classify(texts: readonly (readonly string[])[]): Promise<Prediction[]> {
    const items = this.predictor.prepare(texts);
    const answers = await this.predictor.predict(items);
    return answers.map(({ probabilities, certified, flagged, truncated }, i) => ({
      label: this.labels[toPredictions([probabilities])[0]!]!,
      probabilities: Object.fromEntries(this.labels.map((label, index) => [label, probabilities[index]!])),
      truncated: items[i]!.truncated ?? truncated ?? false,
      ...(certified && { certified }),
      ...(flagged !== undefined && { flagged }),
      ...includeHidden(texts[i]!),
    }));
  }

  /** Frees the model. It cannot be used afterwards. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.base.close();
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
  const { onEvent, windows, positiveLabel, ...given } = options;
  if (/^https?:/.test(reference))
    throw new UserError(
      `${reference}: expected a model, received an endpoint. Only attack and verify query endpoints.`,
    );
  const parsed = validate(runtimeSchema, given, "loadClassifier");
  const { model, runtime } = await loadLocalModel(reference, { ...parsed, onEvent });
  try {
    const use = await findCertifiedUse(model, runtime, { windows, positiveLabel });
    if (!model.newlyInitialized.some(isHeadParameter)) return new TextClassifier(model, runtime, use);
  } catch (error) {
    closeModel(model);
    throw error;
  }
  closeModel(model);
  throw new UserError(
    `${reference} has no classification head. Train one first: temper train --model ${reference} --task …`,
  );
}

export async function findTextColumns(reference: string): Promise<readonly string[]> {
  const run = await RunFolder.containing(reference);
  return run?.config.task === null ? run.config.textColumn : [];
}

function includeHidden(texts: readonly string[]): Pick<Prediction, "hidden"> {
  const hidden = findHiddenText(texts);
  return hidden ? { hidden } : {};
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
