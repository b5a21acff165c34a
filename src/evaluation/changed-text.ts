import { type AttackResult, findNewWords, getWordFields } from "../attacks/result.js";
import { createTextTemplate, type TextPiece } from "../text/text-template.js";

/** The text after an attack in pieces, with its new words. */
export function splitChangedText(result: AttackResult): {
  readonly fields: TextPiece[][];
  readonly changed: ReadonlySet<number>;
  /** The original of a word; undefined if the word was inserted. */
  getOriginal(word: number): string | undefined;
} {
  const { edited, words, final } = result;
  return {
    fields: edited
      ? splitIntoPieces({ fieldSizes: edited.fieldSizes, words: final }, edited.texts, final)
      : splitIntoPieces(result, result.texts, final),
    changed: new Set(findNewWords(result).flatMap((isNew, i) => (isNew ? [i] : []))),
    getOriginal: (word) => words[edited ? edited.origins[word]! : word],
  };
}

/** Splits texts into their words and what is between them. */
export function splitIntoPieces(
  { words, fieldSizes }: Pick<AttackResult, "words" | "fieldSizes">,
  texts: readonly string[],
  shown: readonly string[],
): TextPiece[][] {
  return createTextTemplate(texts, words, getWordFields({ fieldSizes })).pieces(shown);
}
