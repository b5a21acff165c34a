import { findWords } from "./find-words.js";

/**
 * The sizes of windows of at most `size` words: 1, 2, 4, … and `size`. A shorter text is covered by
 * windows of its own words, but is not scored as a whole.
 */
export function listWindowSizes(size: number): number[] {
  if (!(Number.isInteger(size) && size > 0))
    throw new RangeError(`expected a window of at least 1 word, received ${size}`);
  const powers = Array.from({ length: Math.ceil(Math.log2(size)) }, (_, i) => 2 ** i);
  return [...powers, size];
}

/**
 * The distinct windows of a text: every run of k consecutive words, with the characters between
 * them, for every size k that fits. The set depends on nothing outside a window. So if other text
 * comes before or after, with white space between, each window of the text is a window of the
 * longer text. A rule such as "the complete text if it is short" would break this: a longer text
 * does not have that window. A window is a part of the text as it is; canonicalize each window
 * afterwards.
 */
export function listWindows(text: string, sizes: readonly number[]): string[] {
  const words = findWords(text);
  const windows = new Set<string>();
  for (const size of sizes)
    for (let i = 0; i + size <= words.length; i++) windows.add(text.slice(words[i]!.start, words[i + size - 1]!.end));
  return [...windows];
}
