import { createHash } from "node:crypto";
import { UserError } from "../base/errors.js";
import { softmax } from "../base/softmax.js";
import {
  type Classifier,
  classify,
  type DeviceConfig,
  hashModelFolder,
  isHeadParameter,
  type Model,
} from "../models/index.js";
import { getMaxInputLevel } from "../nn/index.js";
import { isTf32Allowed } from "../tensor/index.js";
import { native } from "../tensor/native.js";
import { type Encoding, unknownCharacter } from "../text/encoding.js";
import { findWordPlaces, locateWords, type WordFinder } from "../text/find-words.js";
import { createWordComposer } from "./compose-words.js";
import type { PreparedInput, Victim, VictimInput } from "./victim.js";

/** A tokenized text. Its bytes are its content. */
export class EncodedInput implements PreparedInput {
  constructor(readonly encoding: Encoding) {}

  get content(): Uint8Array {
    return getContentBytes(this.encoding);
  }

  get length(): number {
    return this.encoding.ids.length;
  }
}

/**
 * Texts per call. The model splits them into batches; more texts give fuller batches of equal
 * length. A GPU has no work between two calls.
 */
const maxBatchSize = { cpu: 4096, gpu: 16_384 };
/** More words than any text has. */
const maxWords = 1_000_000;

/** Batches of the model per call on the CPU, where one takes about half a second. */
const cpuBatchesPerCall = 2;

/** Creates a victim from a loaded sequence classifier. */
export async function createModelVictim(
  model: Model,
  classifier: Classifier,
  { device, computeDtype, isQuantized = false }: DeviceConfig,
): Promise<Victim<EncodedInput>> {
  const newlyInitialized = model.newlyInitialized.find(isHeadParameter);
  if (newlyInitialized !== undefined)
    throw new UserError(
      `${model.reference} is not a trained classifier: the checkpoint has no ${newlyInitialized}. Fine-tune it first ` +
        "(temper train).",
    );
  const { session } = model;
  const modelHash = session ? await session.hash() : await hashModelFolder(model.folder);
  const hashes = { model: modelHash, tokenizer: model.tokenizer.hash };
  const { tokenization, maxLength } = model;
  const deviceType = device.replace(/:.*/, "");
  const engine = session ? [session.engine] : [native().versions().libtorch, isTf32Allowed()];
  const identity = [hashes, tokenization, maxLength, computeDtype, deviceType, ...engine];
  if (isQuantized) identity.push(deviceType === "cpu" ? `int8, ${getMaxInputLevel()}` : "fp8");
  // The last digits of float32 differ from those of padded batches.
  else if (classifier.isPacked && computeDtype === "float32") identity.push("packed");
  const { returnsLogits = false } = classifier;
  if (returnsLogits) identity.push("logits");
  const encode = tokenization === "subword" ? createSubwordEncoder(model) : createWordEncoder(model);
  const compute = (inputs: readonly EncodedInput[]): Promise<Float32Array[]> =>
    classify(
      classifier,
      inputs.map(({ encoding }) => encoding),
    );
  return {
    name: model.reference,
    numLabels: model.architecture.numLabels,
    hash: createHash("sha256").update(JSON.stringify(identity)).digest("hex"),
    hashes,
    isDeterministic: true,
    maxBatchSize: maxBatchSize[deviceType === "cpu" ? "cpu" : "gpu"],
    ...(deviceType === "cpu" ? { maxBatchTokens: cpuBatchesPerCall * classifier.batchTokens } : { canOverlap: true }),
    ...(tokenization === "subword"
      ? { findWords: findWordPlaces }
      : { findWords: createWordFinder(model), findAllWords: createWordFinder({ ...model, maxLength: maxWords }) }),
    prepare: (input) => new EncodedInput(encode([input])[0]!),
    prepareAll: (inputs) => encode(inputs).map((encoding) => new EncodedInput(encoding)),
    ...(tokenization !== "subword" && {
      createComposer(original, substitutions) {
        const compose = createWordComposer(model.tokenizer, maxLength, original, substitutions);
        return compose && ((chosen) => new EncodedInput(compose(chosen)));
      },
    }),
    async probabilities(inputs) {
      const rows = await compute(inputs);
      return returnsLogits ? rows.map(softmax) : rows;
    },
    ...(returnsLogits && { logits: compute }),
  };
}

/** The words of a model with word tokenization are its tokens. */
export function createWordFinder({ tokenizer, maxLength }: Pick<Model, "tokenizer" | "maxLength">): WordFinder {
  return (texts) => {
    const { words, fields } = tokenizer.encodeWords(texts, maxLength);
    return locateWords(texts, words, fields);
  };
}

/** Encodes one token per word. A hidden word becomes the unknown token. */
function createWordEncoder({ tokenizer, maxLength }: Model): (inputs: readonly VictimInput[]) => Encoding[] {
  return (inputs) => inputs.map((input) => tokenizer.encodeWords(input(unknownCharacter), maxLength));
}

/** Encodes the rendered text, so the tokenizer sees exactly what a user would type. */
function createSubwordEncoder({ tokenizer, maxLength }: Model): (inputs: readonly VictimInput[]) => Encoding[] {
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]);
  return (inputs) =>
    tokenizer.encodeAll(
      inputs.map((input) => input(unkToken!)),
      maxLength,
    );
}

/**
 * Returns the token IDs, followed by the token types of a pair. Types tell a pair from one text
 * with a separator.
 */
function getContentBytes({ ids, tokenTypeIds }: Encoding): Uint8Array {
  const toBytes = (values: Encoding["ids"] | Encoding["tokenTypeIds"]) =>
    new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return tokenTypeIds.every((type) => type === 0) ? toBytes(ids) : Buffer.concat([ids, tokenTypeIds].map(toBytes));
}
