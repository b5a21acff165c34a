/** A word as a range of characters of its text. */
export interface WordRange {
  readonly start: number;
  readonly end: number;
}

/** Marks that belong to a word only between its letters. */
const innerMarks = "'\\-_*@";
/** Letters, digits and marks, and three characters that homoglyph attacks put into words. */
const wordRun = new RegExp(`[\\p{L}\\p{N}${innerMarks}\\u02d7\`\\u00d7]+`, "gu");
const outerMarks = new RegExp(`^[${innerMarks}]+|[${innerMarks}]+$`, "g");

/**
 * Finds the words of a text as TextAttack 0.3.11 does: runs of letters, digits and a few marks,
 * without marks at their ends. Punctuation and spaces are not part of any word.
 */
export function findWords(text: string): WordRange[] {
  const ranges: WordRange[] = [];
  for (const match of text.matchAll(wordRun)) {
    const run = match[0];
    const word = run.replace(outerMarks, "");
    if (word === "") continue;
    const start = match.index + run.indexOf(word);
    ranges.push({ start, end: start + word.length });
  }
  return ranges;
}

/** Whether a text is exactly one word. */
export function isOneWord(text: string): boolean {
  const [first, second] = findWords(text);
  return first !== undefined && second === undefined && first.start === 0 && first.end === text.length;
}
