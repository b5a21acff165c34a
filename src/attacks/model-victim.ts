import { UserError } from "../base/errors.js";
import { type Classifier, type DeviceConfig, isHeadParameter, type Model } from "../models/index.js";
import { identifyModel } from "../models/inference/identify-model.js";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import { createModelPredictor, EncodedText, type Identified } from "../models/inference/predictor.js";
import { unknownCharacter } from "../text/encoding.js";
import { findWordPlaces, locateWords, type WordFinder } from "../text/find-words.js";
import { createWordComposer } from "./compose-words.js";
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
