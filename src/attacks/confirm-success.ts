import { type AttackResult, readTarget } from "./result.js";
import type { RandomAnswers } from "./victim.js";

/** Fresh evaluations of the final text of a success. */
export const freshEvaluations = 20;

/**
 * Checks a success on a random victim: the final text must fool at least half of the fresh
 * evaluations. The search has seen the mean of a few draws, so a success could be luck.
 */
export async function confirmSuccess(victim: Partial<RandomAnswers>, result: AttackResult): Promise<AttackResult> {
  if (!victim.predictFresh || result.outcome !== "success") return result;
  const fooled = countFooled(result, await victim.predictFresh(result.finalTexts, freshEvaluations));
  const fresh = { evaluations: freshEvaluations, fooled };
  return { ...result, outcome: isConfirmed(fresh) ? "success" : "failed", fresh };
}

/** Counts the predictions that reach the goal: the class of a targeted attack, or any wrong class. */
export function countFooled({ label, goal }: AttackResult, predictions: ArrayLike<number>): number {
  const target = readTarget(goal);
  return Array.from(predictions).filter((each) => (target === null ? each !== label : each === target)).length;
}

export function isConfirmed({ evaluations, fooled }: NonNullable<AttackResult["fresh"]>): boolean {
  return 2 * fooled >= evaluations;
}
