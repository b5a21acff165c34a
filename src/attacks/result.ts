import { type AttackSpaceSize, computeAttackSpaceSize } from "../text/replacements.js";
import { createTextTemplate } from "../text/text-template.js";
import { type AttackExample, applyReplacements } from "./attack-space.js";
import { type EditedText, listChanges } from "./edited-text.js";
import type { Score } from "./search.js";

/** One changed word. Without `from` (an empty string) it was inserted, without `to` deleted. */
export interface Edit {
  /** Index of the original word; of an inserted word, the index of the original word after it. */
  readonly position: number;
  readonly from: string;
  readonly to: string;
}

/** The final text of a recipe, whose words need not be at the positions of the original ones. */
export interface FinalText {
  /** One string per field. */
  readonly texts: readonly string[];
  /** Number of words per field. */
  readonly fieldSizes: readonly number[];
  /** Index of the original word of each word; -1 for an inserted word. */
  readonly origins: readonly number[];
}

/**
 * - skipped: the original text was misclassified. It counts as an error in accuracy under attack.
 * - success: the attack fooled the victim.
 * - failed: the victim resisted.
 */
export type AttackOutcome = "skipped" | "success" | "failed";

/** The result of an attack on one example. The journal has one line per result. */
export interface AttackResult {
  readonly id: string;
  readonly label: number;
  readonly outcome: AttackOutcome;
  /** Texts that the sequential algorithm would score, including the original. */
  readonly queries: number;
  /** True if the query budget ended the search. */
  readonly exhausted: boolean;
  /** Whether a failure proves that no substitution works. Only some searches can tell. */
  readonly exact?: boolean;
  /** True if a margin below 1e-4 decided a prediction. Another batch shape may change it. */
  readonly nearTie: boolean;
  /** Class probabilities of the original text, rounded to six digits. */
  readonly before: readonly number[];
  /** Class probabilities of the final text, rounded to six digits. */
  readonly after: readonly number[];
  readonly edits: readonly Edit[];
  readonly space: AttackSpaceSize;
  readonly texts: readonly string[];
  /** Number of words per field. */
  readonly fieldSizes: readonly number[];
  /** The original words of all fields. */
  readonly words: readonly string[];
  /** The words after the attack. */
  readonly final: readonly string[];
  /** The final text of a recipe. Attacks that only substitute words have none. */
  readonly edited?: FinalText;
  /** What the attack wanted, if it was not any wrong class: "targeted-0", "input-reduction". */
  readonly goal?: string;
  /** False if the goal does not concern the example, such as one of the target class. */
  readonly isAttacked?: false;
}

/** What an attack found for one example. */
export interface SearchOutcome extends Pick<AttackResult, "outcome" | "queries" | "nearTie" | "exact"> {
  readonly replacementIndices: Int16Array;
  readonly before: Score;
  readonly after: Score;
  readonly exhausted?: boolean;
}

/** Creates the journal line for a search outcome. */
export function createAttackResult(example: AttackExample, found: SearchOutcome): AttackResult {
  const { id, label, replacements, texts, words } = example;
  const { outcome, queries, exhausted = false, exact, nearTie } = found;
  const final = applyReplacements(example, found.replacementIndices);
  return {
    id,
    label,
    outcome,
    queries,
    exhausted,
    ...(exact !== undefined && { exact }),
    nearTie,
    before: roundProbabilities(found.before),
    after: roundProbabilities(found.after),
    edits: words.flatMap((from, position) =>
      final[position] === from ? [] : [{ position, from, to: final[position]! }],
    ),
    space: computeAttackSpaceSize(replacements),
    texts,
    fieldSizes: texts.map((_, field) => Array.from(example.fields).filter((other) => other === field).length),
    words,
    final,
  };
}

/** What a recipe found for one example. */
interface RecipeOutcome extends Pick<AttackResult, "outcome" | "queries" | "nearTie" | "exhausted" | "goal"> {
  readonly text: EditedText;
  readonly before: Score;
  readonly after: Score;
  /** Number of words that the constraints allow to change. */
  readonly modifiableWords: number;
  readonly isAttacked?: false;
}

/** Creates the journal line for the outcome of a recipe. */
export function createRecipeResult(id: string, label: number, found: RecipeOutcome): AttackResult {
  const { text, before, after, modifiableWords, outcome, queries, exhausted, nearTie, goal, isAttacked } = found;
  const { original } = text;
  const countFields = ({ slots, texts }: EditedText): number[] =>
    texts.map((_, field) => slots.filter((slot) => slot.field === field).length);
  return {
    ...{ id, label, outcome, queries, exhausted, nearTie },
    before: roundProbabilities(before),
    after: roundProbabilities(after),
    edits: listChanges(text),
    space: { words: original.length, modifiableWords, substitutes: 0, log10Combinations: 0 },
    texts: original.texts,
    fieldSizes: countFields(original),
    words: original.words,
    final: text.words,
    edited: { texts: text.texts, fieldSizes: countFields(text), origins: text.slots.map(({ origin }) => origin) },
    ...(goal !== undefined && { goal }),
    ...(isAttacked === false && { isAttacked }),
  };
}

function roundProbabilities(score: Score): number[] {
  return Array.from(score.probabilities, (value) => Math.round(value * 1e6) / 1e6);
}

/** Returns the field index of each word. */
export function getWordFields({ fieldSizes }: Pick<AttackResult, "fieldSizes">): Uint8Array {
  return Uint8Array.from(fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field)));
}

/** Whether each final word differs from the original word that it comes from. */
export function findNewWords({ words, final, edited }: AttackResult): boolean[] {
  return final.map((word, i) => words[edited ? edited.origins[i]! : i] !== word);
}

/** The texts after the attack, one per field. */
export function getFinalTexts(result: AttackResult): readonly string[] {
  if (result.edited) return result.edited.texts;
  return createTextTemplate(result.texts, result.words, getWordFields(result)).render(result.final);
}
