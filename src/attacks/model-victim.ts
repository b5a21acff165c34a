import { UserError } from "../base/errors.js";
import { type Classifier, type DeviceConfig, isHeadParameter, type Model } from "../models/index.js";
import { identifyModel } from "../models/inference/identify-model.js";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import { createModelPredictor, EncodedText, type Identified } from "../models/inference/predictor.js";
import { type Encoding, type TextComposer, unknownCharacter } from "../text/encoding.js";
import { findWordPlaces, locateWords, type WordFinder } from "../text/find-words.js";
import type { EditedText } from "./edited-text.js";
import type { EditReader, Victim, WordReader } from "./victim.js";

/** More words than any text has. */
const maxWords = 1_000_000;

export async function createModelVictim(
  model: Model,
  classifier: Classifier,
  deviceConfig: DeviceConfig,
): Promise<Victim<EncodedText> & WordReader & EditReader & Identified> {
  const newlyInitialized = model.newlyInitialized.find(isHeadParameter);
  if (newlyInitialized !== undefined)
    throw new UserError(
      `${model.reference} is not a trained classifier: the checkpoint has no ${newlyInitialized}. Fine-tune it first ` +
        "(temper train).",
    );
  const { tokenizer, tokenization, maxLength } = model;
  const predictor = createModelPredictor(model, deviceConfig, () => classifier);
  const prepareEdited = createEditReader({ tokenizer, tokenization, maxLength, prepare: predictor.prepare });
  const identity = await identifyModel(model, classifier, deviceConfig);
  const common = { ...splitCalls(predictor), ...identity, prepareEdited };
  if (tokenization === "subword") {
    const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
    return { ...common, unkToken, findWords: findWordPlaces };
  }
  return {
    ...common,
    unkToken: unknownCharacter,
    findWords: createWordFinder(model),
    findAllWords: createWordFinder({ ...model, maxLength: maxWords }),
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
 * Returns a function that encodes texts by their replaced words. If the tokens of a text are not those
 * of its parts, its characters are encoded.
 */
function createEditReader({
  tokenizer,
  tokenization,
  maxLength,
  prepare,
}: Pick<Model, "tokenizer" | "tokenization" | "maxLength"> & {
  prepare(texts: readonly (readonly string[])[]): EncodedText[];
}): (texts: readonly EditedText[]) => EncodedText[] {
  const composers = new WeakMap<EditedText, { readonly compose: TextComposer | null | undefined }>();
  const compose = ({ base, replacements }: EditedText): Encoding | null => {
    let known = composers.get(base);
    known ??= { compose: tokenizer.createComposer?.(base.texts, base.slots, maxLength, tokenization) };
    composers.set(base, known);
    return known.compose?.(replacements.positions, replacements.words) ?? null;
  };
  return (texts) => {
    // A base is encoded as it is, because many have no versions.
    const composed = texts.map((text) => (text.base === text ? null : compose(text)));
    // Many texts at once are faster than one after the other.
    const others = prepare(texts.filter((_, i) => composed[i] === null).map((text) => text.texts));
    let next = 0;
    return composed.map((encoding) => (encoding ? new EncodedText(encoding) : others[next++]!));
  };
}
