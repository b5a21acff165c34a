import type { DecidedMargin } from "../models/inference/confirm-answers.js";
import type { Identified, Layered, Predictor, PreparedText } from "../models/inference/predictor.js";
import { countWords, type WordFinder } from "../text/find-words.js";
import type { EditedText } from "./edited-text.js";

/**
 * Anything that returns class probabilities for texts: a model, an HTTP endpoint, a function in a
 * test.
 */
export interface Victim<Item extends PreparedText = PreparedText> extends Predictor<Item> {
  /** Stands for a hidden word. */
  readonly unkToken: string;
}

/** A text as functions and endpoints receive it: a string, or the strings of a pair. */
export type PlainText = string | readonly string[];

export interface PlainInput extends PreparedText {
  readonly text: PlainText;
}

export function preparePlainTexts(inputs: readonly (readonly string[])[]): PlainInput[] {
  return inputs.map((texts) => {
    const text = texts.length === 1 ? texts[0]! : texts;
    // Most texts are their own content. A copy of each would be most of the garbage of an attack.
    const content = typeof text === "string" && !text.startsWith("[") ? text : JSON.stringify(texts);
    return { content, text, length: countWords(texts) };
  });
}

/** Optional: a victim with words of its own. Others have those of TextAttack. */
export interface WordReader {
  readonly findWords: WordFinder;
  /** The same, with words that the victim does not read because the text is too long. */
  readonly findAllWords?: WordFinder;
}

/** Optional: a victim that prepares a text with replaced words much faster than its characters. */
export interface EditReader {
  /** Gives what `prepare` gives for the characters of these texts. */
  prepareEdited(texts: readonly EditedText[]): PreparedText[];
}

/** Prepares texts for a victim, by their replaced words if it can. */
export function prepareTexts(
  victim: Pick<Victim, "prepare"> & Partial<EditReader>,
  texts: readonly EditedText[],
): PreparedText[] {
  return victim.prepareEdited?.(texts) ?? victim.prepare(texts.map((text) => text.texts));
}

/** A victim with the optional abilities that it has. */
export type AbleVictim<Item extends PreparedText = PreparedText> = Victim<Item> &
  Partial<WordReader & EditReader & Identified & Layered & DecidedMargin>;
