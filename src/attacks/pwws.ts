import { z } from "zod";
import type { AttackDefinition } from "./attack-definition.js";
import {
  type Candidate,
  createUnchangedCandidate,
  firstMisclassified,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type Score,
  type SearchProblem,
  withReplacement,
} from "./search.js";

const options = z.strictObject({
  adaptive: z
    .boolean()
    .default(false)
    .describe(
      "choose each word's substitute anew on the text as it stands then (TextAttack), not once on the original (the paper, RIFT)",
    ),
});

/**
 * Probability-weighted word saliency (Ren et al. 2019) as RIFT evaluates it: a word's best substitute on the original text, weighted
 * by how much the victim misses the word, decides the order; substitutions add up in that order until the label flips.
 */
export const pwws: AttackDefinition<z.output<typeof options>> = {
  name: "pwws",
  options,
  hasBudget: false,
  search: (settings) => (problem) => searchPwws(problem, settings.adaptive),
};

function* searchPwws(problem: SearchProblem, adaptive: boolean): Generator<Candidate[], Candidate, Score[]> {
  const open = modifiablePositions(problem);
  if (open.length === 0 || problem.maxChanged < 1) return createUnchangedCandidate(problem);
  const none = createUnchangedCandidate(problem).replacementIndices;
  const swaps = open.flatMap((position) =>
    problem.replacements[position]!.slice(1).map((_, i) => ({ position, slot: i + 1 })),
  );
  // Closed words are not hidden: their saliencies only enter the softmax's common denominator, which changes no order.
  const scores = yield [
    ...open.map((position) => ({ replacementIndices: none, mask: position })),
    ...swaps.map(({ position, slot }) => ({ replacementIndices: withReplacement(none, position, slot) })),
  ];
  const before = getGoldProbability(problem.originalScore, problem);
  const saliency = softmax(open.map((_, i) => before - getGoldProbability(scores[i]!, problem)));
  const best = new Map<number, { slot: number; drop: number }>();
  swaps.forEach(({ position, slot }, i) => {
    const drop = before - getGoldProbability(scores[open.length + i]!, problem);
    if (drop > (best.get(position)?.drop ?? Number.NEGATIVE_INFINITY)) best.set(position, { slot, drop });
  });
  const order = open
    .map((position, i) => ({
      position,
      slot: best.get(position)!.slot,
      score: best.get(position)!.drop * saliency[i]!,
    }))
    .sort((a, b) => b.score - a.score || a.position - b.position);
  if (adaptive) {
    return yield* searchAdaptively(
      problem,
      order.map(({ position }) => position),
    );
  }
  const prefixes: Candidate[] = [];
  let picks = none;
  for (const { position, slot } of order.slice(0, problem.maxChanged)) {
    picks = withReplacement(picks, position, slot);
    prefixes.push({ replacementIndices: picks });
  }
  return (yield* firstMisclassified(prefixes, problem)) ?? prefixes.at(-1)!;
}

/** Word by word in the order given, the substitute that hurts most in the text so far; none where none hurts. */
function* searchAdaptively(
  problem: SearchProblem,
  positions: readonly number[],
): Generator<Candidate[], Candidate, Score[]> {
  let current: Candidate = createUnchangedCandidate(problem);
  let lowest = getGoldProbability(problem.originalScore, problem);
  let changed = 0;
  for (const position of positions) {
    if (changed === problem.maxChanged) break;
    const trials = problem.replacements[position]!.slice(1).map((_, i) => ({
      replacementIndices: withReplacement(current.replacementIndices, position, i + 1),
    }));
    const scores = yield trials;
    const golds = scores.map((score) => getGoldProbability(score, problem));
    const best = golds.indexOf(Math.min(...golds));
    if (golds[best]! >= lowest) continue;
    current = trials[best]!;
    lowest = golds[best]!;
    changed++;
    if (isMisclassified(scores[best]!, problem.label)) break;
  }
  return current;
}

function softmax(values: readonly number[]): number[] {
  const exponentials = values.map(Math.exp);
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}
