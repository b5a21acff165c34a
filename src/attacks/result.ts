import type { Score } from "../models/inference/score.js";
import { computeAttackSpaceSize, type SpaceSize } from "../text/replacements.js";
import type { EditedText } from "./edited-text.js";
import { listChanges, type WordChange } from "./word-changes.js";

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
  /** True if a failure proves that no candidate works. Only some searches can tell. */
  readonly exact?: boolean;
  /** True if a margin below 1e-4 decided a prediction. Another batch shape may change it. */
  readonly nearTie: boolean;
  /** Candidates with exactly the margin of another one that was scored with them, if there are any. */
  readonly ties?: number;
  /** Class probabilities of the original text, rounded to six digits. */
  readonly before: readonly number[];
  /** Class probabilities of the final text, rounded to six digits. */
  readonly after: readonly number[];
  /** Replaced, inserted and deleted words. A merge is a replacement and a deletion. */
  readonly edits: readonly WordChange[];
  readonly space: SpaceSize;
  /** The original texts, one per field. */
  readonly texts: readonly string[];
  /** The original words of all fields, as the victim's word finder sees them. */
  readonly words: readonly string[];
  /** Number of original words per field. */
  readonly fieldSizes: readonly number[];
  /** The texts after the attack, one per field. */
  readonly finalTexts: readonly string[];
  /** The words after the attack. */
  readonly finalWords: readonly string[];
  /** Number of words per field after the attack. */
  readonly finalFieldSizes: readonly number[];
  /** Index of the original word of each final word; -1 for an inserted word. */
  readonly origins: readonly number[];
  /** The goal, if it was not any wrong class: "targeted-0", "input-reduction". */
  readonly goal?: string;
  /** False if the goal does not concern the example, such as one of the target class. */
  readonly isAttacked?: false;
  /** Random texts that were scored, and how many of them reached the goal, if all were counted. */
  readonly density?: { readonly samples: number; readonly flipped: number };
}

/** The class that a goal such as "targeted-0" wants; null if it does not want one. */
export function readTarget(goal: string | undefined): number | null {
  const [, target] = /^targeted-(\d+)/.exec(goal ?? "") ?? [];
  return target === undefined ? null : Number(target);
}

/** The finding of an attack for one example. */
export interface AttackFinding
  extends Pick<
    AttackResult,
    "outcome" | "queries" | "nearTie" | "ties" | "exhausted" | "exact" | "goal" | "isAttacked" | "density"
  > {
  readonly text: EditedText;
  readonly before: Score;
  readonly after: Score;
  readonly space: SpaceSize;
}

/** Creates the journal line of an example. */
export function createAttackResult(id: string, label: number, found: AttackFinding): AttackResult {
  const {
    text,
    before,
    after,
    outcome,
    queries,
    exhausted,
    exact,
    nearTie,
    ties = 0,
    space,
    goal,
    isAttacked,
    density,
  } = found;
  const { original } = text;
  return {
    id,
    label,
    outcome,
    queries,
    exhausted,
    ...(exact !== undefined && { exact }),
    nearTie,
    ...(ties > 0 && { ties }),
    before: roundProbabilities(before),
    after: roundProbabilities(after),
    edits: listChanges(text),
    space,
    texts: original.texts,
    words: original.words,
    fieldSizes: countFieldWords(original),
    finalTexts: text.texts,
    finalWords: text.words,
    finalFieldSizes: countFieldWords(text),
    origins: text.slots.map(({ origin }) => origin),
    ...(goal !== undefined && { goal }),
    ...(isAttacked === false && { isAttacked }),
    ...(density && { density }),
  };
}

export function countFieldWords({ slots, texts }: EditedText): number[] {
  return texts.map((_, field) => slots.filter((slot) => slot.field === field).length);
}

/** The size of a space in which each word has a fixed list of candidates. */
export function measureSpace(original: EditedText, candidates: readonly EditedText[]): SpaceSize {
  const lists = original.words.map((word) => [word]);
  for (const { origin, edit } of candidates) if (edit?.kind === "replace") lists[origin]!.push(edit.word);
  return computeAttackSpaceSize(lists);
}

function roundProbabilities(score: Score): number[] {
  return Array.from(score.probabilities, (value) => Math.round(value * 1e6) / 1e6);
}

/** Returns the field index of each word. */
export function getWordFields(fieldSizes: readonly number[]): Uint8Array {
  return Uint8Array.from(fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field)));
}

/** Returns true if each final word differs from the original word that it comes from. */
export function findNewWords({ words, finalWords, origins }: AttackResult): boolean[] {
  return finalWords.map((word, i) => words[origins[i]!] !== word);
}
