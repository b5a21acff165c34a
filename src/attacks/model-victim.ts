import { createHash } from "node:crypto";
import { UserError } from "../errors.js";
import {
  type Classifier,
  classify,
  type DeviceConfig,
  hashModelFolder,
  isHeadParameter,
  type Model,
} from "../models/index.js";
import { isTf32Allowed } from "../tensor/index.js";
import { native } from "../tensor/native.js";
import type { Encoding } from "../text/encoding.js";
import { buildWordSequence } from "../text/word-encoding.js";
import type { PreparedInput, Victim, VictimInput } from "./victim.js";

/** A text as the model reads it: its bytes are its content. */
export interface EncodedInput extends PreparedInput {
  readonly content: Uint8Array;
  readonly encoding: Encoding;
}

/** Texts a call may bring: batches are cut from them, so more of them means fuller ones of one length. */
const maxBatchSize = 4096;

/** A model of ours, or any sequence classifier, as a victim. */
export async function createModelVictim(
  model: Model,
  classifier: Classifier,
  placement: DeviceConfig,
): Promise<Victim<EncodedInput>> {
  const fresh = model.newlyInitialized.filter(isHeadParameter);
  if (fresh.length > 0)
    throw new UserError(
      `${model.reference}: expected a trained classifier, but the checkpoint lacks ${fresh[0]}; fine-tune it first (temper train)`,
    );
  const hashes = { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash };
  const { libtorch } = native().versions();
  const decisive = [
    hashes,
    model.tokenization,
    model.maxLength,
    placement.computeDtype,
    placement.device.replace(/:.*/, ""),
    libtorch,
    isTf32Allowed(),
  ];
  const encode = model.tokenization === "word" ? createWordEncoder(model) : createSubwordEncoder(model);
  return {
    name: model.reference,
    numLabels: model.architecture.numLabels,
    hash: createHash("sha256").update(JSON.stringify(decisive)).digest("hex"),
    hashes,
    isDeterministic: true,
    maxBatchSize,
    prepare(input) {
      const encoded = encode(input);
      return { encoding: encoded, content: getContentBytes(encoded), length: encoded.ids.length };
    },
    probabilities: (inputs) =>
      classify(
        classifier,
        inputs.map(({ encoding: encoded }) => encoded),
      ),
  };
}

/** One token a word, each looked up in the tokenizer's memory; a hidden word is the unknown token itself. */
function createWordEncoder({ tokenizer, maxLength }: Model): (input: VictimInput) => Encoding {
  return ({ words, fields, fieldCount, mask }) => {
    const tokens = Array.from({ length: fieldCount }, (): number[] => []);
    for (let i = 0; i < words.length; i++) {
      tokens[fields[i]!]!.push(i === mask ? tokenizer.special.unkId : tokenizer.wordToId(words[i]!));
    }
    return buildWordSequence(tokens, tokenizer.special, maxLength);
  };
}

/** The text as it would be typed: what the tokenizer makes of it is what counts, whatever the words were. */
function createSubwordEncoder({ tokenizer, maxLength }: Model): (input: VictimInput) => Encoding {
  const [unknown] = tokenizer.idsToTokens([tokenizer.special.unkId]);
  return ({ texts }) => tokenizer.encode(texts(unknown!), maxLength);
}

/** The ids, and the types where there are any: a pair is not the text that spells its separator. */
function getContentBytes({ ids, tokenTypeIds: types }: Encoding): Uint8Array {
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  if (types.every((type) => type === 0)) return bytes;
  return Buffer.concat([bytes, new Uint8Array(types.buffer, types.byteOffset, types.byteLength)]);
}
