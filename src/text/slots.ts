import { partsOfSpeech } from "./part-of-speech.js";
import type { Substitutions } from "./substitutions.js";

/** The words that may stand at each place of a text. */
export interface Slots {
  /** One list a word; slot 0 is the word itself, and a list of length 1 is closed. */
  readonly choices: readonly (readonly string[])[];
}

/** The attack space of one text: the substitutes of every word that lies in an open field, at most `slots` a word. */
export function slotsOf(
  words: readonly string[],
  fields: ArrayLike<number>,
  openFields: readonly number[],
  substitutions: Substitutions,
  options: { readonly slots?: number } = {},
): Slots {
  const slots = options.slots ?? 10;
  const tags = substitutions.usesPartOfSpeech ? partsOfSpeech(words) : undefined;
  const choices = words.map((word, i) => {
    if (!openFields.includes(fields[i]!)) return [word];
    return [word, ...substitutions.of(word, tags?.[i])].slice(0, slots);
  });
  return { choices };
}

/** How large an attack space is (RIFT 3.3): words that can change, substitutes each has on average, log10 of the combinations. */
export interface SpaceSize {
  readonly words: number;
  readonly openWords: number;
  readonly substitutes: number;
  readonly log10Combinations: number;
}

/** Measures the attack space of one text. */
export function spaceSize(choices: readonly (readonly string[])[]): SpaceSize {
  const open = choices.filter((slots) => slots.length > 1);
  const total = open.reduce((sum, slots) => sum + slots.length - 1, 0);
  return {
    words: choices.length,
    openWords: open.length,
    substitutes: open.length === 0 ? 0 : total / open.length,
    log10Combinations: open.reduce((sum, slots) => sum + Math.log10(slots.length), 0),
  };
}
