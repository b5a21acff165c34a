import { type AttackSpaceSize, computeAttackSpaceSize } from "../text/replacements.js";
import { type AttackExample, applyReplacements } from "./attack-space.js";
import type { Score } from "./search.js";

/** One changed word. */
export interface Edit {
  readonly position: number;
  readonly from: string;
  readonly to: string;
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

function roundProbabilities(score: Score): number[] {
  return Array.from(score.probabilities, (value) => Math.round(value * 1e6) / 1e6);
}

/** Returns the field index of each word. */
export function getWordFields({ fieldSizes }: AttackResult): Uint8Array {
  return Uint8Array.from(fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field)));
}
