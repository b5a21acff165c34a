import { tagPartsOfSpeech } from "./part-of-speech.js";
import type { Substitutions } from "./substitutions.js";

/** The attack space of one text: each word with its substitutes, if its field is modifiable. */
export function buildAttackSpace(
  words: readonly string[],
  fields: ArrayLike<number>,
  modifiableFields: readonly number[],
  substitutions: Substitutions,
  candidatesPerWord = 10,
): string[][] {
  const tags = substitutions.usesPartOfSpeech ? tagPartsOfSpeech(words) : undefined;
  return words.map((word, i) => {
    if (!modifiableFields.includes(fields[i]!)) return [word];
    return [word, ...substitutions.getSubstitutes(word, tags?.[i])].slice(0, candidatesPerWord);
  });
}

/** The size of an attack space (RIFT 3.3). */
export interface SpaceSize {
  readonly words: number;
  /** Words with at least one substitute. */
  readonly modifiableWords: number;
  /** The mean number of substitutes per modifiable word. */
  readonly substitutes: number;
  readonly log10Combinations: number;
}

export function computeAttackSpaceSize(replacements: readonly (readonly string[])[]): SpaceSize {
  const modifiable = replacements.filter((candidates) => candidates.length > 1);
  const total = modifiable.reduce((sum, candidates) => sum + candidates.length - 1, 0);
  return {
    words: replacements.length,
    modifiableWords: modifiable.length,
    substitutes: modifiable.length === 0 ? 0 : total / modifiable.length,
    log10Combinations: modifiable.reduce((sum, candidates) => sum + Math.log10(candidates.length), 0),
  };
}
