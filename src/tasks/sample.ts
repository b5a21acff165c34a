import { Rng } from "../base/rng.js";
import type { Example } from "./example.js";
import { computeDedupKey } from "./split-examples.js";

/**
 * Draws a random sample of n examples, balanced over the classes as far as possible, in the order
 * of the file. With the same seed, a smaller sample is a subset of a larger one.
 */
export function sampleExamples(
  examples: readonly Example[],
  n: number,
  seed: number | string,
  numLabels: number,
): Example[] {
  if (n >= examples.length) return [...examples];
  const drawn = drawIndices(examples, n, seed, numLabels);
  return drawn.sort((a, b) => a - b).map((index) => examples[index]!);
}

/** Like `sampleExamples`, in the order of drawing: a smaller sample is the start of a larger one. */
export function drawExamples(
  examples: readonly Example[],
  n: number,
  seed: number | string,
  numLabels: number,
): Example[] {
  return drawIndices(examples, n, seed, numLabels).map((index) => examples[index]!);
}

function drawIndices(examples: readonly Example[], n: number, seed: number | string, numLabels: number): number[] {
  const rng = new Rng(seed);
  const classes = Array.from({ length: numLabels }, (_, label) => {
    const indices = examples.flatMap((example, index) => (example.label === label ? [index] : []));
    return rng.fork("limit", label).shuffle(indices);
  });
  // The classes that get the remainder are random too, so that no class is favored over many seeds.
  const order = rng.fork("limit", "order").shuffle(classes.map((_, label) => label));
  const rounds = Math.max(...classes.map((indices) => indices.length));
  const selected: number[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const label of order) {
      const index = classes[label]![round];
      if (index !== undefined && selected.length < n) selected.push(index);
    }
  }
  return selected;
}

/** Draws n examples of any class, in the order of drawing: a smaller sample is the start. */
export function drawRandomly(examples: readonly Example[], n: number, seed: number | string): Example[] {
  const order = new Rng(seed).fork("sample").shuffle([...examples.keys()]);
  return order.slice(0, n).map((index) => examples[index]!);
}

export function countOverlap(train: readonly Example[], evaluation: readonly Example[]): number {
  const seen = new Set(train.map((example) => computeDedupKey(example.texts)));
  return evaluation.filter((example) => seen.has(computeDedupKey(example.texts))).length;
}
