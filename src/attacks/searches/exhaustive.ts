import type { EditedText } from "../edited-text.js";
import { expandWords, findFirst, type Problem, type Search, Unproven } from "../protocol.js";

/**
 * Tries every combination of candidates, those with the fewest changes first. If there are at most
 * `maxCandidates`, a failure proves that none reaches the goal.
 */
export function exhaustiveSearch(maxCandidates: number): Search {
  return {
    name: "all combinations, those with the fewest changes first",
    cost: `up to ${maxCandidates + 1}`,
    proves: true,
    *run(problem) {
      const candidates = yield* expandWords(problem);
      let isComplete = true;
      function* listTexts(): Generator<EditedText> {
        let count = 0;
        for (const text of enumerateTexts(problem, [...candidates.values()])) {
          if (count++ === maxCandidates) {
            isComplete = false;
            return;
          }
          yield text;
        }
      }
      const found = yield* findFirst(listTexts(), 64);
      const { text } = problem.original;
      return found ?? (isComplete ? text : new Unproven(text));
    },
  };
}

export function hasAtMost(problem: Problem, words: readonly (readonly EditedText[])[], limit: number): boolean {
  let count = 0;
  for (const _ of enumerateTexts(problem, words)) if (++count > limit) return false;
  return true;
}

/** All texts with one changed word, then with two, and so on. */
function* enumerateTexts(problem: Problem, words: readonly (readonly EditedText[])[]): Generator<EditedText> {
  const { text } = problem.original;
  for (let count = 1; count <= words.length; count++) {
    let isAny = false;
    for (const each of enumerateChanges(problem, words, text, 0, count)) {
      isAny = true;
      yield each;
    }
    // If no text with so many changes is allowed, none with more changes is.
    if (!isAny) return;
  }
}

/** Yields all ways to change exactly `count` more words, starting at the word `from`. */
function* enumerateChanges(
  problem: Problem,
  words: readonly (readonly EditedText[])[],
  text: EditedText,
  from: number,
  count: number,
): Generator<EditedText> {
  if (count === 0) {
    yield text;
    return;
  }
  for (let i = from; i <= words.length - count; i++)
    for (const { edit } of words[i]!) {
      const changed = text.apply(edit!);
      if (problem.isAllowed(changed)) yield* enumerateChanges(problem, words, changed, i + 1, count - 1);
    }
}
