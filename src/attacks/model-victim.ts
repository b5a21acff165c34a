import { UserError } from "../base/errors.js";
import { type Classifier, type DeviceConfig, isHeadParameter, type Model } from "../models/index.js";
import { identifyModel } from "../models/inference/identify-model.js";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import { createModelPredictor, EncodedText, type Identified } from "../models/inference/predictor.js";
import { type Encoding, type Tokenizer, unknownCharacter } from "../text/encoding.js";
import { findWordPlaces, locateWords, type WordFinder } from "../text/find-words.js";
import type { EditedText } from "./edited-text.js";
import type { Composer, Victim, WordReader } from "./victim.js";

/** More words than any text has. */
const maxWords = 1_000_000;

/** Creates a victim from a loaded sequence classifier. */
export async function createModelVictim(
  model: Model,
  classifier: Classifier,
  deviceConfig: DeviceConfig,
): Promise<Victim<EncodedText> & WordReader & Partial<Composer> & Identified> {
  const newlyInitialized = model.newlyInitialized.find(isHeadParameter);
  if (newlyInitialized !== undefined)
    throw new UserError(
      `${model.reference} is not a trained classifier: the checkpoint has no ${newlyInitialized}. Fine-tune it first ` +
        "(temper train).",
    );
  const { tokenizer, tokenization, maxLength } = model;
  const predictor = createModelPredictor(model, deviceConfig, () => classifier);
  const common = { ...splitCalls(predictor), ...(await identifyModel(model, classifier, deviceConfig)) };
  if (tokenization === "subword") {
    const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
    return { ...common, unkToken, findWords: findWordPlaces };
  }
  return {
    ...common,
    unkToken: unknownCharacter,
    findWords: createWordFinder(model),
    findAllWords: createWordFinder({ ...model, maxLength: maxWords }),
    createComposer(original, substitutions) {
      const compose = createWordComposer(tokenizer, maxLength, original, substitutions);
      return compose && ((chosen) => new EncodedText(compose(chosen)));
    },
  };
}

/** The words of a model with word tokenization are its tokens. */
export function createWordFinder({ tokenizer, maxLength }: Pick<Model, "tokenizer" | "maxLength">): WordFinder {
  return (texts) => {
    const { words, fields } = tokenizer.encodeWords(texts, maxLength);
    return locateWords(texts, words, fields);
  };
}

/**
 * Returns a function that encodes a text with some of these substitutions, one token per word. Words
 * never extend across white space. So if no two of the words are in the same part between spaces,
 * and each substitution alone changes one token, then several change these tokens and nothing else.
 * Null if that does not hold.
 */
function createWordComposer(
  { encodeWords }: Pick<Tokenizer, "encodeWords">,
  maxLength: number,
  original: EditedText,
  substitutions: readonly (readonly [position: number, word: string])[],
): ((chosen: readonly number[]) => Encoding) | null {
  const base = encodeWords(original.texts, maxLength);
  const partOf = new Map<string, number>();
  const [places, tokens] = [new Int32Array(substitutions.length), new Int32Array(substitutions.length)];
  for (const [i, [position, word]] of substitutions.entries()) {
    const { field, start } = original.slots[position]!;
    let partStart = start;
    while (/\S/.test(original.texts[field]!.charAt(partStart - 1))) partStart--;
    const part = `${field} ${partStart}`;
    if ((partOf.get(part) ?? position) !== position) return null;
    partOf.set(part, position);
    const { ids } = encodeWords(original.apply({ kind: "replace", position, word }).texts, maxLength);
    const place = base.positions[position];
    if (place === undefined || ids.length !== base.ids.length) return null;
    if (ids.some((id, at) => at !== place && id !== base.ids[at])) return null;
    [places[i], tokens[i]] = [place, ids[place]!];
  }
  const { tokenTypeIds, truncated } = base;
  return (chosen) => {
    const ids = base.ids.slice();
    for (const each of chosen) ids[places[each]!] = tokens[each]!;
    return { ids, tokenTypeIds, truncated };
  };
}
