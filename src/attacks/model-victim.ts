import { createHash } from "node:crypto";
import { UserError } from "../errors.js";
import { type Classifier, classify, hashModelFolder, isHead, type Model, type Placement } from "../models/index.js";
import { allowsTf32 } from "../tensor/index.js";
import { native } from "../tensor/native.js";
import type { Encoded } from "../text/encoding.js";
import { arrangeWords } from "../text/word-encoding.js";
import type { Prepared, Victim, VictimInput } from "./victim.js";

/** A text as the model reads it: its bytes are its content. */
export interface EncodedInput extends Prepared {
  readonly content: Uint8Array;
  readonly encoded: Encoded;
}

/** Texts a call may bring: batches are cut from them, so more of them means fuller ones of one length. */
const capacity = 4096;

/** A model of ours, or any sequence classifier, as a victim. */
export async function modelVictim(model: Model, classifier: Classifier, placement: Placement): Promise<Victim<EncodedInput>> {
  const fresh = model.fresh.filter(isHead);
  if (fresh.length > 0)
    throw new UserError(
      `${model.reference}: expected a trained classifier, but the checkpoint lacks ${fresh[0]}; fine-tune it first (temper train)`,
    );
  const hashes = { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash };
  const { libtorch } = native().versions();
  const decisive = [
    hashes,
    model.encoding,
    model.maxLength,
    placement.compute,
    placement.device.replace(/:.*/, ""),
    libtorch,
    allowsTf32(),
  ];
  const encode = model.encoding === "word" ? wordReader(model) : subwordReader(model);
  return {
    name: model.reference,
    classes: model.shape.classes,
    hash: createHash("sha256").update(JSON.stringify(decisive)).digest("hex"),
    hashes,
    stable: true,
    capacity,
    prepare(input) {
      const encoded = encode(input);
      return { encoded, content: contentOf(encoded), length: encoded.ids.length };
    },
    probabilities: (inputs) =>
      classify(
        classifier,
        inputs.map(({ encoded }) => encoded),
      ),
  };
}

/** One token a word, each looked up in the tokenizer's memory; a hidden word is the unknown token itself. */
function wordReader({ tokenizer, maxLength }: Model): (input: VictimInput) => Encoded {
  return ({ words, fields, fieldCount, mask }) => {
    const tokens = Array.from({ length: fieldCount }, (): number[] => []);
    for (let i = 0; i < words.length; i++) {
      tokens[fields[i]!]!.push(i === mask ? tokenizer.special.unknown : tokenizer.wordToken(words[i]!));
    }
    return arrangeWords(tokens, tokenizer.special, maxLength);
  };
}

/** The text as it would be typed: what the tokenizer makes of it is what counts, whatever the words were. */
function subwordReader({ tokenizer, maxLength }: Model): (input: VictimInput) => Encoded {
  const [unknown] = tokenizer.tokens([tokenizer.special.unknown]);
  return ({ texts }) => tokenizer.encode(texts(unknown!), maxLength);
}

/** The ids, and the types where there are any: a pair is not the text that spells its separator. */
function contentOf({ ids, types }: Encoded): Uint8Array {
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  if (types.every((type) => type === 0)) return bytes;
  return Buffer.concat([bytes, new Uint8Array(types.buffer, types.byteOffset, types.byteLength)]);
}
