/** A stretch of a text: the word of that index, or what stands around words. */
export interface TextPiece {
  readonly text: string;
  readonly word: number | null;
}

/** A text with its words taken out: what stood before, between and after them. */
export interface TextTemplate {
  /** How many texts there are. */
  readonly numTexts: number;
  /** The texts with these words in the places of the old ones. */
  render(words: readonly string[]): string[];
  /** The same in pieces, for those who mark words. */
  pieces(words: readonly string[]): TextPiece[][];
}

/** Finds the words in their texts, so that changed words keep the spacing and all that the words do not cover. */
export function createTextTemplate(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
): TextTemplate {
  const tails = [...texts];
  const gaps = words.map((word, i) => {
    const field = fields[i]!;
    const rest = tails[field] ?? "";
    const at = rest.indexOf(word);
    // A word that a tokenizer wrote otherwise than the text cannot be placed: a space stands before it.
    if (at === -1) return " ";
    tails[field] = rest.slice(at + word.length);
    return rest.slice(0, at);
  });
  return {
    numTexts: texts.length,
    render(changed) {
      const rendered = texts.map(() => "");
      for (let i = 0; i < words.length; i++) rendered[fields[i]!] += gaps[i]! + changed[i]!;
      return rendered.map((text, field) => text + tails[field]!);
    },
    pieces(changed) {
      const cut = texts.map((): TextPiece[] => []);
      changed.forEach((text, word) => {
        cut[fields[word]!]!.push({ text: gaps[word]!, word: null }, { text, word });
      });
      return cut.map((pieces, field) =>
        [...pieces, { text: tails[field]!, word: null }].filter(({ text }) => text !== ""),
      );
    },
  };
}
