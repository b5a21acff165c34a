/** A piece of a text: a word with its index, or the text between words (null). */
export interface TextPiece {
  readonly text: string;
  readonly word: number | null;
}

/** Splits each text into its words and what is between them. `fields` has the index of the text of each word. */
export function splitIntoPieces(
  texts: readonly string[],
  words: readonly string[],
  fields: ArrayLike<number>,
): TextPiece[][] {
  const byField = texts.map((): TextPiece[] => []);
  const ends = texts.map(() => 0);
  for (const [word, text] of words.entries()) {
    const field = fields[word]!;
    const start = texts[field]!.indexOf(text, ends[field]);
    // If a tokenizer changed the spelling of a word, it is not found. Put a space before it.
    const gap = start < 0 ? " " : texts[field]!.slice(ends[field], start);
    if (start >= 0) ends[field] = start + text.length;
    byField[field]!.push({ text: gap, word: null }, { text, word });
  }
  return byField.map((pieces, field) =>
    [...pieces, { text: texts[field]!.slice(ends[field]), word: null }].filter(({ text }) => text !== ""),
  );
}
