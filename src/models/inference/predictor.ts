import { UserError } from "../../base/errors.js";
import type { Encoding } from "../../text/encoding.js";
import type { DeviceConfig } from "../device-config.js";
import type { Model } from "../model.js";
import { tokenizeAll } from "../model-input.js";
import { classify, cpuBatchTokens, createClassifier } from "./classifier.js";
import type { Classifier } from "./classifier-interface.js";
import { createScore, type Score } from "./score.js";

/** A text that a predictor has prepared, usually by tokenizing it. */
export interface PreparedText {
  /** Everything that determines the answer, such as token IDs. Equal contents have equal answers. */
  readonly content: string | Uint8Array | Int32Array;
  /** Number of tokens or words. Batches contain texts of similar length. */
  readonly length: number;
  /** True if the end of the text was cut off. */
  readonly truncated?: boolean;
  /** The number of texts that the model reads to answer. Default: 1. */
  readonly passes?: number;
}

/**
 * The accuracy of an answer. A rough one may come from a lower precision. With a label, the answer
 * is exact if the text may have another class.
 */
export type Accuracy = "exact" | "rough" | { readonly label: number };

export interface CallLimits {
  readonly maxTexts: number;
  /** Maximum number of tokens, so that a call takes seconds at most. Default: no limit. */
  readonly maxTokens?: number;
  /** True if the host can prepare the next call while this one is computed, as with a GPU. */
  readonly canOverlap?: boolean;
}

export interface PredictOptions {
  getAccuracy?(index: number): Accuracy;
  /** The client, for a predictor that serves several in turn. */
  readonly client?: string;
  /** Maximum number of texts per call, if it is less than that of the predictor. */
  readonly maxCallSize?: number;
  /** Called after each call with its answers by index. An error ends the prediction. */
  onCall?(answers: ReadonlyMap<number, Score>): void;
  /** Called by a model with the number of answers after each batch. An error ends the prediction. */
  onBatch?: ((done: number) => void) | undefined;
  /** Called with the number of answers that were computed again, to be exact. */
  onRepeat?(count: number): void;
}

/**
 * Answers for texts: a model, or something that wraps one (parts of texts, a cache, a confirmation
 * in float32, a vote).
 *
 * @example
 * const [score] = await predictor.predict(predictor.prepare([["a quiet film"]]));
 */
export interface Predictor<Item extends PreparedText = PreparedText, Answer extends Score = Score> {
  readonly name: string;
  readonly numLabels: number;
  /** True if answers have logits. Searches then use these. */
  readonly returnsLogits?: boolean;
  readonly callLimits: CallLimits;
  /** Prepares texts or pairs. Many together are faster than one after the other. */
  prepare(texts: readonly (readonly string[])[]): Item[];
  /** Returns one answer per item, in the same order, for any number of items. */
  predict(items: readonly Item[], options?: PredictOptions): Promise<Answer[]>;
}

/** Optional: what decides the answers of a predictor besides the text. */
export interface Identified {
  /** SHA-256 of everything that determines the answers (weights, dtype, engine, …). */
  readonly hash: string;
  /** SHA-256 of its parts for files ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** False if answers may change for the same hash, as for an endpoint. They are not stored on disk. */
  readonly isDeterministic: boolean;
}

export interface Layered {
  /** The same predictor with each of the others wrapped. */
  wrapEach(wrap: (predictor: Predictor & Partial<Identified>) => Predictor): Predictor & Layered;
}

export class EncodedText implements PreparedText {
  constructor(readonly encoding: Encoding) {}

  /** Token IDs and, for a pair, token types, which tell it from a text with a separator. */
  get content(): Uint8Array | Int32Array {
    const { ids, tokenTypeIds } = this.encoding;
    return hasOnlyZeros(tokenTypeIds) ? ids : Buffer.concat([toBytes(ids), toBytes(tokenTypeIds)]);
  }

  get length(): number {
    return this.encoding.ids.length;
  }

  get truncated(): boolean {
    return this.encoding.truncated;
  }
}

// An iterator takes longer than the rest of the work on a candidate.
function hasOnlyZeros(values: Int32Array): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== 0) return false;
  return true;
}

function toBytes(values: Int32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/**
 * The model splits calls into batches; more texts give fuller batches of equal length. On the CPU, a
 * batch takes about half a second, and a call has two of them. A GPU has no work between two calls.
 */
const cpuCalls: CallLimits = { maxTexts: 4096, maxTokens: 2 * cpuBatchTokens };
const gpuCalls: CallLimits = { maxTexts: 16_384, canOverlap: true };

/** The predictor of a model. Closing it keeps the weights of the model. */
export interface ModelPredictor extends Predictor<EncodedText> {
  close(): void;
}

/** Creates the predictor of a model on libtorch, or on ONNX Runtime if it has a session. */
export function createModelPredictor(
  model: Model,
  deviceConfig: DeviceConfig,
  /** Casting weights and capturing CUDA graphs takes long, so the classifier is created at the first call. */
  create: () => Classifier = () => createClassifier(model, model.weights, deviceConfig),
): ModelPredictor {
  let classifier: Classifier | null = null;
  let isClosed = false;
  const getClassifier = (): Classifier => {
    if (isClosed) throw new UserError("This model is closed. Load it again with loadClassifier().");
    classifier ??= create();
    return classifier;
  };
  return {
    name: model.reference,
    numLabels: model.architecture.numLabels,
    returnsLogits: true,
    callLimits: deviceConfig.device === "cpu" ? cpuCalls : gpuCalls,
    prepare: (texts) => tokenizeAll(model, texts).map((encoding) => new EncodedText(encoding)),
    async predict(items, { onBatch } = {}) {
      const encodings = items.map(({ encoding }) => encoding);
      return (await classify(getClassifier(), encodings, onBatch)).map((row) => createScore(row, true));
    },
    close() {
      isClosed = true;
      classifier?.close();
    },
  };
}
