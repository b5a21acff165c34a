import type { Tokenization, Tokenizer } from "./encoding.js";

/** The number of characters of each text that a model reads before its maximum length cuts the rest. */
export function measureReadTexts(
  tokenizer: Tokenizer,
  texts: readonly string[],
  { tokenization, maxLength }: { readonly tokenization: Tokenization; readonly maxLength: number },
): number[] {
  if (tokenization !== "subword") {
    const { words, fields } = tokenizer.encodeWords(texts, maxLength);
    return texts.map((text, field) => {
      const kept = words.filter((_, i) => fields[i] === field);
      return kept.reduce((end, word) => {
        const start = text.indexOf(word, end);
        return start < 0 ? end : start + word.length;
      }, 0);
    });
  }
  const ends = texts.map(() => 0);
  let field = -1;
  let isSpecial = true;
  for (const [start, end] of tokenizer.encodeWithOffsets(texts, maxLength).offsets) {
    const wasSpecial = isSpecial;
    isSpecial = end === start;
    if (isSpecial) continue;
    // Special tokens separate the texts.
    if (wasSpecial) field++;
    ends[field] = end;
  }
  return ends;
}
