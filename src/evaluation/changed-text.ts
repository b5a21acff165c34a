import { type AttackResult, findNewWords, getWordFields } from "../attacks/result.js";
import { splitIntoPieces, type TextPiece } from "../text/text-pieces.js";

/** The text after an attack in pieces, with its new words. */
export function splitChangedText(result: AttackResult) {
  const { finalTexts, finalWords, finalFieldSizes, words, origins } = result;
  return {
    fields: splitIntoPieces(finalTexts, finalWords, getWordFields(finalFieldSizes)),
    changed: new Set(findNewWords(result).flatMap((isNew, i) => (isNew ? [i] : []))),
    /** The original of a word; undefined if the word was inserted. */
    getOriginal: (word: number) => words[origins[word]!],
  };
}

/** The original text in pieces: its words and what is between them. */
export function splitOriginalText({ texts, words, fieldSizes }: AttackResult): TextPiece[][] {
  return splitIntoPieces(texts, words, getWordFields(fieldSizes));
}
