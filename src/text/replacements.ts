import { tagPartsOfSpeech } from "./part-of-speech.js";
import type { Substitutions } from "./substitutions.js";

/** The words that may stand at each place of a text. */
export interface AttackSpace {
  /** One list a word; slot 0 is the word itself, and a list of length 1 is closed. */
  readonly replacements: readonly (readonly string[])[];
}

/** The attack space of one text: the substitutes of every word that lies in an open field, at most `slots` a word. */
export function buildAttackSpace(
  words: readonly string[],
  fields: ArrayLike<number>,
  modifiableFields: readonly number[],
  substitutions: Substitutions,
  options: { readonly slots?: number } = {},
): AttackSpace {
  const slots = options.slots ?? 10;
  const tags = substitutions.usesPartOfSpeech ? tagPartsOfSpeech(words) : undefined;
  const choices = words.map((word, i) => {
    if (!modifiableFields.includes(fields[i]!)) return [word];
    return [word, ...substitutions.getSubstitutes(word, tags?.[i])].slice(0, slots);
  });
  return { replacements: choices };
}

/** How large an attack space is (RIFT 3.3): words that can change, substitutes each has on average, log10 of the combinations. */
export interface AttackSpaceSize {
  readonly words: number;
  readonly modifiableWords: number;
  readonly substitutes: number;
  readonly log10Combinations: number;
}

/** Measures the attack space of one text. */
export function computeAttackSpaceSize(choices: readonly (readonly string[])[]): AttackSpaceSize {
  const open = choices.filter((slots) => slots.length > 1);
  const total = open.reduce((sum, slots) => sum + slots.length - 1, 0);
  return {
    words: choices.length,
    modifiableWords: open.length,
    substitutes: open.length === 0 ? 0 : total / open.length,
    log10Combinations: open.reduce((sum, slots) => sum + Math.log10(slots.length), 0),
  };
}
