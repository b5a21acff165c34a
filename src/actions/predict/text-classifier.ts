import { setTimeout as delay } from "node:timers/promises";
import { countCertifiedEdits, type HashVoteOptions, toVoteFractions } from "../../certificates/hash-vote.js";
import { UserError } from "../../errors.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Callbacks } from "../../events.js";
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
import type { Encoding } from "../../text/encoding.js";
import { validate } from "../../validate.js";
import { loadLocalModel } from "../load/load-local-model.js";
import { classifyByVote, encodeVoters, findVoteOptions } from "./voting.js";

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
  /** For a model with certified predictions: the number of word edits that cannot change it. */
  readonly certified?: CertifiedEdits;
  /** With a coverage: the labels that contain the true one with this probability. */
  readonly labelSet?: readonly string[];
}

/** The edits that cannot change a prediction. */
export interface CertifiedEdits {
  readonly kind: "hash-vote" | "windows";
  /**
   * The number of words that may be substituted, inserted or deleted. For windows, null if any text
   * may come before and after, and 0 if nothing is certain.
   */
  readonly edits: number | null;
}

export type LoadClassifierOptions = RuntimeOptions & Pick<Callbacks, "onEvent">;

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
    /** How the model votes; null if it classifies complete texts. */
    readonly voting: HashVoteOptions | null = null,
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

  /** The class probabilities of texts, without any vote. Row i of the result belongs to text i. */
  score(texts: readonly (readonly string[])[]): Promise<Float32Array[]> {
    return this.#score(tokenizeAll(this.model, texts));
  }

  async #score(encodings: readonly Encoding[]): Promise<Float32Array[]> {
    if (this.#isClosed) throw new UserError("This model is closed. Load it again with loadClassifier().");
    this.#classifier ??= createClassifier(this.model, this.model.weights, this.runtime);
    return classify(this.#classifier, encodings);
  }

  async #classify(inputs: readonly (readonly string[])[]): Promise<Prediction[]> {
    const { labels } = this.model;
    if (this.voting) return this.#vote(inputs, this.voting);
    const encodings = tokenizeAll(this.model, inputs);
    const rows = await this.#score(encodings);
    return rows.map((row, i) => ({
      label: labels[toPredictions([row])[0]!]!,
      probabilities: Object.fromEntries(labels.map((label, index) => [label, row[index]!])),
      truncated: encodings[i]!.truncated,
    }));
  }

  async #vote(inputs: readonly (readonly string[])[], voting: HashVoteOptions): Promise<Prediction[]> {
    const { labels } = this.model;
    const voters = encodeVoters(inputs, voting, (texts) => tokenizeAll(this.model, texts));
    const certificates = await classifyByVote(voters, voting, (encodings) => this.#score(encodings));
    return certificates.map((certificate, i) => {
      const fractions = toVoteFractions(certificate);
      return {
        label: labels[certificate.label]!,
        probabilities: Object.fromEntries(labels.map((label, index) => [label, fractions[index]!])),
        truncated: voters[i]!.some(({ truncated }) => truncated),
        certified: { kind: "hash-vote", edits: countCertifiedEdits(certificate) },
      };
    });
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
  try {
    const voting = await findVoteOptions(model, runtime);
    if (!model.newlyInitialized.some(isHeadParameter)) return new TextClassifier(model, runtime, voting);
  } catch (error) {
    closeModel(model);
    throw error;
  }
  closeModel(model);
  throw new UserError(
    `${reference} has no classification head. Train one first: temper train --model ${reference} --task …`,
  );
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
