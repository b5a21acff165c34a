import { z } from "zod";
import { type PartOfSpeech, partsOfSpeech } from "../text/part-of-speech.js";
import { isStopWord } from "../text/stop-words.js";

/** What every attack can be held to. */
export const constraintOptions = z.strictObject({
  largestShare: z.number().gt(0).max(1).default(1).describe("largest share of a text's words that may change"),
  keepStopWords: z.boolean().default(false).describe("never change a stop word, nor put one in"),
  keepPartOfSpeech: z.boolean().default(false).describe("a substitute must have the part of speech of the word, in its context"),
});
export type Constraints = z.output<typeof constraintOptions>;

type Choices = readonly (readonly string[])[];

/** The choices that the constraints leave; slot 0 always stays. */
export function constrain(choices: Choices, constraints: Constraints): Choices {
  let left = choices;
  if (constraints.keepStopWords) left = withoutStopWords(left);
  if (constraints.keepPartOfSpeech) left = withSamePartOfSpeech(left);
  return left;
}

/** The most words of a text that may change. */
export function mostChanged(words: number, constraints: Constraints): number {
  return Math.floor(words * constraints.largestShare);
}

/** The choices that a language model allows: `swaps` has the lower-case swaps of every word. */
export function keepSwaps(choices: Choices, swaps: readonly (readonly string[])[]): Choices {
  return choices.map((slots, i) => keep(slots, (word) => swaps[i]?.includes(word.toLowerCase()) ?? false));
}

function keep(slots: readonly string[], allowed: (word: string) => boolean): readonly string[] {
  return slots.filter((word, slot) => slot === 0 || allowed(word));
}

function withoutStopWords(choices: Choices): Choices {
  return choices.map((slots) => (isStopWord(slots[0]!) ? slots.slice(0, 1) : keep(slots, (word) => !isStopWord(word))));
}

/** Words either side that the tagger sees: enough to decide, and short enough to try every substitute. */
const window = 6;

function withSamePartOfSpeech(choices: Choices): Choices {
  const words = choices.map((slots) => slots[0]!);
  const tagAt = (position: number, word: string): PartOfSpeech => {
    const start = Math.max(0, position - window);
    const context = [...words.slice(start, position), word, ...words.slice(position + 1, position + 1 + window)];
    return partsOfSpeech(context)[position - start]!;
  };
  return choices.map((slots, position) => {
    if (slots.length === 1) return slots;
    const tag = tagAt(position, slots[0]!);
    return keep(slots, (word) => tagAt(position, word) === tag);
  });
}
