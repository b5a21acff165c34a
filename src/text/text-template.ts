/** A piece of a text: a word with its index, or the text between words (null). */
export interface TextPiece {
  readonly text: string;
  readonly word: number | null;
}

/** Texts with their words removed, so that other words can be inserted. */
export interface TextTemplate {
  /** The number of texts. */
  readonly numTexts: number;
  /** Returns the texts with these words instead of the original ones. */
  render(words: readonly string[]): string[];
  /** Returns the same as pieces, so that words can be highlighted. */
  pieces(words: readonly string[]): TextPiece[][];
}

/**
 * Finds the words in their texts, so that replaced words keep the spacing and everything else
 * between words.
 */
export function createTextTemplate(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
): TextTemplate {
  const tails = [...texts];
  const gaps = words.map((word, i) => {
    const field = fields[i]!;
    const rest = tails[field] ?? "";
    const start = rest.indexOf(word);
    // If a tokenizer changed the spelling of a word, it is not found. Put a space before it.
    if (start === -1) return " ";
    tails[field] = rest.slice(start + word.length);
    return rest.slice(0, start);
  });
  return {
    numTexts: texts.length,
    render(changed) {
      const rendered = texts.map(() => "");
      for (let i = 0; i < words.length; i++) rendered[fields[i]!] += gaps[i]! + changed[i]!;
      return rendered.map((text, field) => text + tails[field]!);
    },
    pieces(changed) {
      const byField = texts.map((): TextPiece[] => []);
      changed.forEach((text, word) => {
        byField[fields[word]!]!.push({ text: gaps[word]!, word: null }, { text, word });
      });
      return byField.map((pieces, field) =>
        [...pieces, { text: tails[field]!, word: null }].filter(({ text }) => text !== ""),
      );
    },
  };
}
