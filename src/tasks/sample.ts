import { Rng } from "../tensor/random.js";
import { computeDedupKey } from "./dedup-key.js";
import type { Example } from "./task.js";

/**
 * A seeded sample of n examples, as evenly over the classes as they allow, in the file's order. A smaller sample of the same seed is
 * part of a larger one.
 */
export function sampleExamples(
  examples: readonly Example[],
  n: number,
  seed: number | string,
  numLabels: number,
): Example[] {
  if (n >= examples.length) return [...examples];
  const rng = new Rng(seed);
  const piles = Array.from({ length: numLabels }, (_, label) => {
    const positions = examples.flatMap((example, position) => (example.label === label ? [position] : []));
    return rng.fork("limit", label).shuffle(positions);
  });
  // Which class gets the odd ones out is drawn too, so that no class is favoured over many seeds.
  const order = rng.fork("limit", "order").shuffle(piles.map((_, label) => label));
  const rounds = Math.max(...piles.map((pile) => pile.length));
  const chosen: number[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const label of order) {
      const position = piles[label]![round];
      if (position !== undefined && chosen.length < n) chosen.push(position);
    }
  }
  return chosen.sort((a, b) => a - b).map((position) => examples[position]!);
}

/** How many evaluation examples also stand in train, but for case, punctuation and spacing. */
export function countOverlap(train: readonly Example[], evaluation: readonly Example[]): number {
  const seen = new Set(train.map((example) => computeDedupKey(example.texts)));
  return evaluation.filter((example) => seen.has(computeDedupKey(example.texts))).length;
}
