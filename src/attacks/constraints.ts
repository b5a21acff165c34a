import { z } from "zod";
import { tagPartsOfSpeech } from "../text/part-of-speech.js";
import { isStopWord } from "../text/words.js";

/** Constraints that apply to every attack. */
export const constraintsSchema = z.strictObject({
  maxModificationRate: z.number().gt(0).max(1).default(1).describe("maximum fraction of words to change per text"),
  protectStopWords: z.boolean().default(false).describe("never change or insert a stop word"),
  matchPartOfSpeech: z
    .boolean()
    .default(false)
    .describe("a substitute must have the same part of speech as the word, in context"),
});
export type Constraints = z.output<typeof constraintsSchema>;

type Replacements = readonly (readonly string[])[];

/** Removes the replacements that violate a constraint. Index 0, the word itself, always stays. */
export function applyConstraints(replacements: Replacements, constraints: Constraints): Replacements {
  let remaining = replacements;
  if (constraints.protectStopWords) remaining = removeStopWords(remaining);
  if (constraints.matchPartOfSpeech) remaining = keepSamePartOfSpeech(remaining);
  return remaining;
}

/** Returns the maximum number of words of a text that may change. */
export function getMaxChangedWords(numWords: number, { maxModificationRate }: Constraints): number {
  return Math.floor(numWords * maxModificationRate);
}

/**
 * Keeps the replacements that a language model allows. `allowed` has lower-case words per position.
 */
export function keepLanguageModelSubstitutes(replacements: Replacements, allowed: Replacements): Replacements {
  return replacements.map((words, i) =>
    filterSubstitutes(words, (word) => allowed[i]?.includes(word.toLowerCase()) ?? false),
  );
}

function filterSubstitutes(words: readonly string[], isAllowed: (word: string) => boolean): readonly string[] {
  return words.filter((word, index) => index === 0 || isAllowed(word));
}

function removeStopWords(replacements: Replacements): Replacements {
  return replacements.map((words) =>
    isStopWord(words[0]!) ? words.slice(0, 1) : filterSubstitutes(words, (word) => !isStopWord(word)),
  );
}

/**
 * Context words on each side for the tagger. A short context makes it cheap to tag every
 * substitute.
 */
const contextSize = 6;

function keepSamePartOfSpeech(replacements: Replacements): Replacements {
  const text = replacements.map((words) => words[0]!);
  return replacements.map((words, position) => {
    if (words.length === 1) return words;
    const start = Math.max(0, position - contextSize);
    const [left, right] = [text.slice(start, position), text.slice(position + 1, position + 1 + contextSize)];
    const tag = (word: string) => tagPartsOfSpeech([...left, word, ...right])[position - start]!;
    const originalTag = tag(words[0]!);
    return filterSubstitutes(words, (word) => tag(word) === originalTag);
  });
}
