import { findWords } from "../../text/find-words.js";
import type { ScoringProcess } from "./scoring.js";

/** The sizes of windows, in words. */
export type WindowSizes = readonly number[];

/**
 * The sizes of windows of at most `size` words.
 * - every: all sizes. A text of at most `size` words is a window itself, in every text around it.
 *   It costs about `size` times as much as one size.
 * - doubling: 1, 2, 4, … and `size`. A shorter text is covered by windows of its own words, but is
 *   not scored as a whole.
 * - one: windows of exactly `size` words. A shorter text has no window, and scores 0.
 */
export function listWindowSizes(size: number, short: "every" | "doubling" | "one"): number[] {
  if (!(Number.isInteger(size) && size > 0))
    throw new RangeError(`expected a window of at least 1 word, received ${size}`);
  if (short === "one") return [size];
  if (short === "every") return Array.from({ length: size }, (_, i) => i + 1);
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
export function listWindows(text: string, sizes: WindowSizes): string[] {
  const words = findWords(text);
  const windows = new Set<string>();
  for (const size of sizes)
    for (let i = 0; i + size <= words.length; i++) windows.add(text.slice(words[i]!.start, words[i + size - 1]!.end));
  return [...windows];
}

/** The score of a text by its windows, and the window that proves it. */
export interface WindowScore {
  /** The largest probability of the positive label in any window; 0 without a window. */
  readonly score: number;
  /** The first window with this score. Any text around it has at least this score. */
  readonly window: string | null;
  readonly windows: number;
}

/**
 * Scores a text by its windows: score(x) = max over windows w of x of P[positive | w]. Windows of
 * x are windows of every text y that contains x, so score(y) >= score(x): text that is appended or
 * prepended, however long, cannot lower the score. The proof is the window.
 */
export function* scoreWindows(text: string, sizes: WindowSizes, positiveLabel: number): ScoringProcess<WindowScore> {
  const windows = listWindows(text, sizes);
  const rows = yield windows.map((window) => [window]);
  let best: WindowScore = { score: 0, window: null, windows: windows.length };
  for (const [i, row] of rows.entries()) {
    const score = row[positiveLabel]!;
    // 0 is the score of a text without windows, so scores below it would break the order.
    if (!(score >= 0 && score <= 1)) throw new RangeError(`expected a probability, received ${score}`);
    if (best.window === null || score > best.score) best = { ...best, score, window: windows[i]! };
  }
  return best;
}

/** Whether a text contains the window that proves the score of another text. */
export function hasWindow(text: string, window: string, sizes: WindowSizes): boolean {
  return listWindows(text, sizes).includes(window);
}
