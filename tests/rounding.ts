import { expect } from "vitest";
import type { Prediction, TextClassifier } from "../src/actions/predict/text-classifier.js";
import type { Tensor } from "../src/tensor/index.js";
import { native } from "../src/tensor/native.js";

/** The largest relative error of one rounding. Tolerances are multiples of it and of the sizes of the terms. */
export const unitRoundoff = { float64: 2 ** -53, float32: 2 ** -24, float16: 2 ** -11, bfloat16: 2 ** -8 } as const;

/** Numbers of one result: a number, a list, nested lists, a tensor, or a tensor of a fixture. */
type List =
  | number
  | ArrayLike<number>
  | readonly List[]
  | Pick<Tensor, "toFloat32Array">
  | { readonly values: readonly number[] };

/** One result, or several by name. */
export type Numbers = List | ReadonlyMap<string, List> | Readonly<Record<string, List>>;

export const getLargest = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** The largest difference between two lists of the same length. */
export function computeDistance(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(actual.length).toBe(expected.length);
  return getLargest(Array.from(actual, (value, i) => value - (expected[i] as number)));
}

/** What two computations of the same number may differ by. */
export interface Rounding {
  /** The format of the computation. Default: float32. */
  readonly format?: keyof typeof unitRoundoff;
  /** How many roundings follow one another, such as the terms of a sum and the operations after it. Default: 16. */
  readonly terms?: number;
  /** The size of the terms. Default: the largest expected value, because nothing cancels. */
  readonly scale?: number;
  /** What other roundings change in each list (`measureSpread`). 8 times as much is allowed. */
  readonly spread?: ReadonlyMap<string, number>;
  /** The decimals that the expected values are written with, if they come from a paper or another program. */
  readonly decimals?: number;
}

/** The largest difference that rounding explains between two lists. */
export function computeTolerance(expected: ArrayLike<number>, rounding: Rounding, name = ""): number {
  const { format = "float32", terms = 16, scale = getLargest(expected), spread, decimals } = rounding;
  const written = decimals === undefined ? 0 : 0.5 * 10 ** -decimals;
  // Both sides are rounded.
  return 2 * terms * unitRoundoff[format] * scale + 8 * (spread?.get(name) ?? 0) + written;
}

function toList(list: List): ArrayLike<number> | undefined {
  if (typeof list === "number") return [list];
  if (Array.isArray(list)) return list.flatMap((part: List) => Array.from(toList(part)!));
  if (ArrayBuffer.isView(list)) return list as unknown as ArrayLike<number>;
  if ("toFloat32Array" in list && typeof list.toFloat32Array === "function") return list.toFloat32Array();
  return "values" in list && Array.isArray(list.values) ? list.values : undefined;
}

function toLists(numbers: Numbers): [name: string, values: ArrayLike<number>][] {
  const list = numbers instanceof Map ? undefined : toList(numbers as List);
  if (list) return [["", list]];
  const entries = numbers instanceof Map ? [...numbers] : Object.entries(numbers as Readonly<Record<string, List>>);
  return entries.map(([name, values]) => [name, toList(values)!]);
}

/** Expects that results differ by no more than rounding explains. The tolerance is computed, never written. */
export function expectClose(
  actual: Numbers | null | undefined,
  expected: Numbers,
  rounding: Rounding = {},
  message = "",
): void {
  if (actual === null || actual === undefined) throw new Error(`${message}: expected numbers, received ${actual}`);
  const found = new Map(toLists(actual));
  for (const [name, values] of toLists(expected)) {
    const own = found.get(name);
    if (!own) throw new Error(`${message} ${name}: expected numbers, received none`);
    const what = `${message} ${name}: ${Array.from(own).slice(0, 5)} instead of ${Array.from(values).slice(0, 5)}`;
    const distance = computeDistance(own, values);
    // Infinities are equal only to themselves.
    if (Number.isNaN(distance)) expect(Array.from(own), what).toEqual(Array.from(values));
    else expect(distance, what).toBeLessThanOrEqual(computeTolerance(values, rounding, name));
  }
}

/** Arithmetic of JavaScript, in which nothing cancels. */
export const float64: Rounding = { format: "float64" };

/** Matches a number within an object that `toEqual` or `toMatchObject` compares. The tolerance is computed. */
export function matchClose(expected: number, rounding: Rounding): number {
  const tolerance = computeTolerance([expected], rounding);
  return expect.toSatisfy(
    (actual) => typeof actual === "number" && Math.abs(actual - expected) <= tolerance,
    `${expected} ± ${tolerance}`,
  ) as number;
}

/** Computes with results of products and reductions moved by random last bits, or with none moved (null). */
export function withJitter<T>(seed: number | null, compute: () => T): T {
  const before = native().jitter(seed);
  const restore = (): void => void native().jitter(before);
  let result: T;
  try {
    result = compute();
  } catch (error) {
    restore();
    throw error;
  }
  if (result instanceof Promise) return result.finally(restore) as T;
  restore();
  return result;
}

/** The seeds of the jitter that a spread is measured with. `null` moves nothing. */
const spreadSeeds = [null, 1, 2, 3, 4];

function computeSpread(runs: readonly Numbers[]): Map<string, number> {
  const [first, ...others] = runs.map(toLists);
  return new Map(
    first!.map(([name, values], i) => [
      name,
      Math.max(...others.map((other) => computeDistance((other[i] as [string, ArrayLike<number>])[1], values))),
    ]),
  );
}

/**
 * How much rounding changes a computation: the largest difference in each list if it is repeated
 * with other last bits. A gradient whose terms cancel, a step of Adam along a gradient of 0, or a
 * perturbation divided by its norm magnifies every error; a tolerance for one processor would not
 * hold on the next.
 */
export function measureSpread(compute: () => Numbers): Map<string, number> {
  return computeSpread(spreadSeeds.map((seed) => withJitter(seed, compute)));
}

/** `measureSpread` of a computation that returns a promise. */
export async function measureAsyncSpread(compute: () => Promise<Numbers>): Promise<Map<string, number>> {
  const runs: Numbers[] = [];
  for (const seed of spreadSeeds) runs.push(await withJitter(seed, compute));
  return computeSpread(runs);
}

/** The probabilities of predictions, one list per text. */
export function getProbabilities(predictions: readonly Prediction[]): number[][] {
  return predictions.map(({ probabilities }) => Object.values(probabilities));
}

/** How much rounding changes the probabilities that a model gives to texts. */
export function measureProbabilitySpread(
  classifier: TextClassifier,
  texts: Parameters<TextClassifier["classify"]>[0],
): Promise<Map<string, number>> {
  return measureAsyncSpread(async () => getProbabilities(await classifier.classify(texts)));
}

/** Compares what a computation gives with its reference, allowing what other roundings change in it. */
export function expectComputed(compute: () => Numbers, expected: Numbers, rounding: Rounding = {}, message = ""): void {
  expectClose(compute(), expected, { ...rounding, spread: measureSpread(compute) }, message);
}

/** `expectComputed` of a computation that returns a promise. */
export async function expectComputedAsync(
  compute: () => Promise<Numbers>,
  expected: Numbers,
  rounding: Rounding = {},
  message = "",
): Promise<void> {
  expectClose(await compute(), expected, { ...rounding, spread: await measureAsyncSpread(compute) }, message);
}
