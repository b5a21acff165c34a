import { z } from "zod";
import { type PartOfSpeech, tagPartsOfSpeech } from "../text/part-of-speech.js";
import { isStopWord } from "../text/stop-words.js";

/** What every attack can be held to. */
export const constraintsSchema = z.strictObject({
  maxModificationRate: z.number().gt(0).max(1).default(1).describe("largest share of a text's words that may change"),
  protectStopWords: z.boolean().default(false).describe("never change a stop word, nor put one in"),
  matchPartOfSpeech: z
    .boolean()
    .default(false)
    .describe("a substitute must have the part of speech of the word, in its context"),
});
export type Constraints = z.output<typeof constraintsSchema>;

type Replacements = readonly (readonly string[])[];

/** The choices that the constraints leave; slot 0 always stays. */
export function applyConstraints(replacements: Replacements, constraints: Constraints): Replacements {
  let left = replacements;
  if (constraints.protectStopWords) left = removeStopWords(left);
  if (constraints.matchPartOfSpeech) left = keepSamePartOfSpeech(left);
  return left;
}

/** The most words of a text that may change. */
export function getMaxChangedWords(words: number, constraints: Constraints): number {
  return Math.floor(words * constraints.maxModificationRate);
}

/** The choices that a language model allows: `swaps` has the lower-case swaps of every word. */
export function keepLanguageModelSubstitutes(
  replacements: Replacements,
  swaps: readonly (readonly string[])[],
): Replacements {
  return replacements.map((slots, i) =>
    filterReplacements(slots, (word) => swaps[i]?.includes(word.toLowerCase()) ?? false),
  );
}

function filterReplacements(slots: readonly string[], allowed: (word: string) => boolean): readonly string[] {
  return slots.filter((word, slot) => slot === 0 || allowed(word));
}

function removeStopWords(replacements: Replacements): Replacements {
  return replacements.map((slots) =>
    isStopWord(slots[0]!) ? slots.slice(0, 1) : filterReplacements(slots, (word) => !isStopWord(word)),
  );
}

/** Words either side that the tagger sees: enough to decide, and short enough to try every substitute. */
const window = 6;

function keepSamePartOfSpeech(replacements: Replacements): Replacements {
  const words = replacements.map((slots) => slots[0]!);
  const getTagAt = (position: number, word: string): PartOfSpeech => {
    const start = Math.max(0, position - window);
    const context = [...words.slice(start, position), word, ...words.slice(position + 1, position + 1 + window)];
    return tagPartsOfSpeech(context)[position - start]!;
  };
  return replacements.map((slots, position) => {
    if (slots.length === 1) return slots;
    const tag = getTagAt(position, slots[0]!);
    return filterReplacements(slots, (word) => getTagAt(position, word) === tag);
  });
}
