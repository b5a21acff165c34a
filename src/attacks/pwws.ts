import { z } from "zod";
import type { AttackDefinition } from "./attack.js";
import { type Candidate, firstThatFools, goldProbability, openPositions, type Problem, type Score, unchanged, withPick } from "./search.js";

/**
 * Probability-weighted word saliency (Ren et al. 2019) as RIFT evaluates it: a word's best substitute on the original text, weighted
 * by how much the victim misses the word, decides the order; substitutions add up in that order until the label flips.
 */
export const pwws: AttackDefinition<Record<string, never>> = {
  name: "pwws",
  options: z.strictObject({}),
  limited: false,
  search: () => searchPwws,
};

function* searchPwws(problem: Problem): Generator<Candidate[], Candidate, Score[]> {
  const open = openPositions(problem);
  if (open.length === 0 || problem.maxChanged < 1) return unchanged(problem);
  const none = unchanged(problem).picks;
  const swaps = open.flatMap((position) => problem.choices[position]!.slice(1).map((_, i) => ({ position, slot: i + 1 })));
  // Closed words are not hidden: their saliencies only enter the softmax's common denominator, which changes no order.
  const scores = yield [
    ...open.map((position) => ({ picks: none, mask: position })),
    ...swaps.map(({ position, slot }) => ({ picks: withPick(none, position, slot) })),
  ];
  const before = goldProbability(problem.original, problem);
  const saliency = softmax(open.map((_, i) => before - goldProbability(scores[i]!, problem)));
  const best = new Map<number, { slot: number; drop: number }>();
  swaps.forEach(({ position, slot }, i) => {
    const drop = before - goldProbability(scores[open.length + i]!, problem);
    if (drop > (best.get(position)?.drop ?? Number.NEGATIVE_INFINITY)) best.set(position, { slot, drop });
  });
  const order = open
    .map((position, i) => ({ position, slot: best.get(position)!.slot, score: best.get(position)!.drop * saliency[i]! }))
    .sort((a, b) => b.score - a.score || a.position - b.position)
    .slice(0, problem.maxChanged);
  const prefixes: Candidate[] = [];
  let picks = none;
  for (const { position, slot } of order) {
    picks = withPick(picks, position, slot);
    prefixes.push({ picks });
  }
  return (yield* firstThatFools(prefixes, problem)) ?? prefixes.at(-1)!;
}

function softmax(values: readonly number[]): number[] {
  const exponentials = values.map(Math.exp);
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}
