import { z } from "zod";
import type { Score } from "../models/inference/score.js";
import { computeAttackSpaceSize, type SpaceSize } from "../text/replacements.js";
import type { EditedText } from "./edited-text.js";
import { listChanges } from "./word-changes.js";

const probability = z.number().min(-0.01).max(1.01);
const count = z.int().min(0);

/** The size of an attack space: the mean of logarithms is at most the logarithm of the mean. */
const spaceSchema = z
  .object({
    words: count,
    modifiableWords: count,
    substitutes: z.number().min(0),
    log10Combinations: z.number().min(0),
  })
  .refine(
    ({ modifiableWords, substitutes, log10Combinations }) =>
      // The candidates of a recipe depend on the text so far, so their number is not recorded.
      (substitutes === 0 && log10Combinations === 0) ||
      (log10Combinations >= modifiableWords * Math.log10(2) - 1e-6 &&
        log10Combinations <= modifiableWords * Math.log10(1 + substitutes) + 1e-6),
    { path: ["log10Combinations"], error: "expected a size that follows from the numbers of words and substitutes" },
  );

/** The result of an attack on one example: a line of its journal. A forged journal can have valid checksums. */
export const attackResultSchema = z
  .object({
    id: z.string().min(1),
    label: count,
    /**
     * - skipped: the original text was misclassified. It counts as an error in accuracy under attack.
     * - success: the attack fooled the victim.
     * - failed: the victim resisted.
     */
    outcome: z.enum(["skipped", "success", "failed"]),
    /** Texts that the sequential algorithm would score, including the original. */
    queries: z.int().min(1),
    /** True if the query budget ended the search. */
    exhausted: z.boolean(),
    /** True if a failure proves that no candidate works. Only some searches can tell. */
    exact: z.boolean().optional(),
    /** True if a margin below 1e-4 decided a prediction. Another batch shape may change it. */
    nearTie: z.boolean(),
    /** Candidates with exactly the margin of another one that was scored with them, if there are any. */
    ties: z.int().min(1).optional(),
    /** Class probabilities of the original and of the final text, rounded to six digits. */
    before: z.array(probability),
    after: z.array(probability),
    /** Replaced, inserted and deleted words. A merge is a replacement and a deletion. */
    edits: z.array(z.object({ position: count, from: z.string(), to: z.string() })),
    space: spaceSchema,
    /** The original texts, one per field, and their words, as the victim's word finder sees them. */
    texts: z.array(z.string()).min(1).max(255),
    words: z.array(z.string()),
    fieldSizes: z.array(count),
    /** The same after the attack. */
    finalTexts: z.array(z.string()),
    finalWords: z.array(z.string()),
    finalFieldSizes: z.array(count),
    /** Index of the original word of each final word; -1 for an inserted word. */
    origins: z.array(z.int().min(-1)),
    /** The goal, if it was not any wrong class: "targeted-0", "input-reduction". */
    goal: z.string().optional(),
    /** False if the goal does not concern the example, such as one of the target class. */
    isAttacked: z.literal(false).optional(),
  })
  .superRefine((line, context) => {
    const { label, before, after, edits, space, texts, fieldSizes, words } = line;
    const { finalTexts, finalWords, finalFieldSizes, origins } = line;
    const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
    const isInside = edits.every(({ position, from }) => position < words.length + Number(from === ""));
    const checks: [isValid: boolean, key: keyof typeof line, message: string][] = [
      [label < before.length, "label", "expected one of the classes"],
      [after.length === before.length, "after", "expected as many probabilities as before the attack"],
      [fieldSizes.length === texts.length, "fieldSizes", "expected one number per text"],
      [sum(fieldSizes) === words.length, "fieldSizes", "expected the number of words per field"],
      [finalTexts.length === texts.length, "finalTexts", "expected as many texts as before the attack"],
      [finalFieldSizes.length === texts.length, "finalFieldSizes", "expected one number per text"],
      [sum(finalFieldSizes) === finalWords.length, "finalFieldSizes", "expected the number of final words per field"],
      [origins.length === finalWords.length, "origins", "expected one origin per final word"],
      [origins.every((origin) => origin < words.length), "origins", "expected indices of original words"],
      [space.words === words.length, "space", "expected the number of words"],
      [space.modifiableWords <= words.length, "space", "expected at most all words to be modifiable"],
      [isInside, "edits", "expected positions of words"],
    ];
    for (const [isValid, key, message] of checks)
      if (!isValid) context.addIssue({ code: "custom", path: [key], message, input: line });
  });

type DeepReadonly<T> = { readonly [Key in keyof T]: DeepReadonly<T[Key]> };

export type AttackResult = DeepReadonly<z.output<typeof attackResultSchema>>;
export type AttackOutcome = AttackResult["outcome"];

/** The class that a goal such as "targeted-0" wants; null if it does not want one. */
export function readTarget(goal: string | undefined): number | null {
  const [, target] = /^targeted-(\d+)/.exec(goal ?? "") ?? [];
  return target === undefined ? null : Number(target);
}

export function createAttackResult(
  id: string,
  label: number,
  found: Pick<
    AttackResult,
    "outcome" | "queries" | "nearTie" | "ties" | "exhausted" | "exact" | "goal" | "isAttacked" | "space"
  > & {
    readonly text: EditedText;
    readonly before: Score;
    readonly after: Score;
  },
): AttackResult {
  const { text, exact, ties = 0, goal, isAttacked } = found;
  const { original } = text;
  return {
    id,
    label,
    outcome: found.outcome,
    queries: found.queries,
    exhausted: found.exhausted,
    ...(exact !== undefined && { exact }),
    nearTie: found.nearTie,
    ...(ties > 0 && { ties }),
    before: roundProbabilities(found.before),
    after: roundProbabilities(found.after),
    edits: listChanges(text),
    space: found.space,
    texts: original.texts,
    words: original.words,
    fieldSizes: countFieldWords(original),
    finalTexts: text.texts,
    finalWords: text.words,
    finalFieldSizes: countFieldWords(text),
    origins: text.slots.map(({ origin }) => origin),
    ...(goal !== undefined && { goal }),
    ...(isAttacked === false && { isAttacked }),
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

export function getWordFields(fieldSizes: readonly number[]): Uint8Array {
  return Uint8Array.from(fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field)));
}

/** Returns true if each final word differs from the original word that it comes from. */
export function findNewWords({ words, finalWords, origins }: AttackResult): boolean[] {
  return finalWords.map((word, i) => words[origins[i]!] !== word);
}
