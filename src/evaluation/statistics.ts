import { z } from "zod";
import type { Rng } from "../base/rng.js";
import { chiSquareTail, logGamma, normalQuantile, studentQuantile, studentTail } from "./special-functions.js";
import { computeSumTail } from "./sum-tail.js";

export const intervalSchema = z.object({ low: z.number(), high: z.number() });
/** The ends of a confidence interval. */
export type Interval = Readonly<z.output<typeof intervalSchema>>;

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

/** Unbiased sample variance (n - 1 in the denominator). */
function variance(values: ArrayLike<number>): number {
  const center = mean(values);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i]! - center) ** 2;
  return sum / (values.length - 1);
}

/** Sample standard deviation (n - 1 in the denominator). */
export function standardDeviation(values: ArrayLike<number>): number {
  return Math.sqrt(variance(values));
}

/** The q-quantile with linear interpolation, or NaN for no values. */
export function quantile(values: ArrayLike<number>, q: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = Float64Array.from(values).sort();
  const position = q * (sorted.length - 1);
  const below = Math.floor(position);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below]! + (position - below) * (sorted[above]! - sorted[below]!);
}

export function median(values: ArrayLike<number>): number {
  return quantile(values, 0.5);
}

/** Wilson score interval of a proportion: `successes` of `count`. */
export function wilsonInterval(successes: number, count: number, confidence = 0.95): Interval {
  if (count === 0) return { low: 0, high: 1 };
  const z = normalQuantile(0.5 + confidence / 2);
  const proportion = successes / count;
  const scale = 1 + (z * z) / count;
  const center = (proportion + (z * z) / (2 * count)) / scale;
  const half = (z / scale) * Math.sqrt((proportion * (1 - proportion)) / count + (z * z) / (4 * count * count));
  // At the ends the exact bound is 0 or 1, which rounding would miss.
  return { low: successes === 0 ? 0 : center - half, high: successes === count ? 1 : center + half };
}

/**
 * Half the 95% confidence interval of a mean over seeds; 0 for one seed, whose variation is
 * unknown.
 */
export function computeSeedHalfWidth(values: readonly number[]): number {
  if (values.length < 2) return 0;
  return studentQuantile(0.975, values.length - 1) * (standardDeviation(values) / Math.sqrt(values.length));
}

/**
 * McNemar's test on the examples that only one of two models classifies correctly: the exact
 * binomial test, and the chi-squared test with continuity correction.
 */
export function mcNemar(
  onlyFirst: number,
  onlySecond: number,
): { readonly exact: number; readonly chiSquared: number; readonly p: number } {
  const count = onlyFirst + onlySecond;
  if (count === 0) return { exact: 1, chiSquared: 0, p: 1 };
  let tail = 0;
  for (let k = 0; k <= Math.min(onlyFirst, onlySecond); k++) {
    tail += Math.exp(logGamma(count + 1) - logGamma(k + 1) - logGamma(count - k + 1) - count * Math.LN2);
  }
  const chiSquared = Math.max(0, Math.abs(onlyFirst - onlySecond) - 1) ** 2 / count;
  return { exact: Math.min(1, 2 * tail), chiSquared, p: chiSquareTail(chiSquared) };
}

/**
 * One-tailed paired t-test that the first is larger. Both have the same seeds in the same order. `p` is the
 * probability of such a difference if the first were not larger.
 */
export function pairedTTest(first: readonly number[], second: readonly number[]) {
  if (first.length !== second.length)
    throw new RangeError(`expected pairs, received ${first.length} and ${second.length} values`);
  const differences = first.map((value, i) => value - second[i]!);
  const count = differences.length;
  return tTest(mean(differences), standardDeviation(differences) / Math.sqrt(count), count - 1, count);
}

/** A standard error below this fraction of the difference is a rounding error. */
const roundingTolerance = 1e-9;

/** Without any variance, t is infinite even for two seeds. The sign test then gives the p-value. */
function tTest(difference: number, error: number, degrees: number, count: number) {
  if (error <= roundingTolerance * Math.abs(difference)) {
    const p = 0.5 ** count;
    if (difference === 0) return { t: 0, degrees, p: 0.5 };
    return { t: Math.sign(difference) * Number.POSITIVE_INFINITY, degrees, p: difference > 0 ? p : 1 - p };
  }
  const t = difference / error;
  return { t, degrees, p: studentTail(t, degrees) };
}

/** Holm's correction of p-values for multiple tests. */
export function holmCorrection(values: readonly number[]): number[] {
  const order = [...values.keys()].sort((a, b) => values[a]! - values[b]!);
  const adjusted = new Array<number>(values.length);
  let runningMax = 0;
  order.forEach((index, rank) => {
    runningMax = Math.max(runningMax, Math.min(1, (values.length - rank) * values[index]!));
    adjusted[index] = runningMax;
  });
  return adjusted;
}

/** With fewer resamples on one side of zero, the p-value would be coarse. */
const rareResamples = 5;
const confidence = 0.95;

export interface BootstrapResult extends Interval {
  /** Mean of the first minus mean of the second. */
  readonly difference: number;
  /** Two-tailed: twice the smaller fraction of resamples on one side of zero. */
  readonly p: number;
}

/** Accuracies of two models: rows are seeds, columns are examples, and entries are 1 (correct) or 0. */
export type ModelPair = readonly [first: readonly ArrayLike<number>[], second: readonly ArrayLike<number>[]];

/**
 * Paired bootstraps of differences in accuracy. They resample seeds and examples with replacement, the same for both
 * models, so the interval covers the random variation of both. Pairs of one size share the resamples, because drawing
 * takes most of the time. Resamples of equal gaps have no variation,
 * but more examples could: then the interval is as wide as that of 0 of `examples` (Wilson). A small
 * p-value is computed from the distribution of all resamples, so that it can survive the correction of a
 * table with hundreds of tests. It is at least that of one resample in ten times as many.
 */
export function bootstrapPairs(pairs: readonly ModelPair[], rng: Rng, samples = 10_000): BootstrapResult[] {
  const resamplings = pairs.map((pair) => createResampling(pair, samples));
  if (new Set(resamplings.map(({ gaps }) => `${gaps.length} ${gaps[0]!.length}`)).size > 1)
    throw new RangeError("expected pairs with the same numbers of seeds and examples");
  drawResamples(resamplings, samples, rng);
  for (const each of resamplings)
    if (isRare(each)) each.tail = computeResampleTail(each.gaps, each.atMostZero < each.atLeastZero ? 1 : -1);
  const unknown = resamplings.filter((each) => isRare(each) && each.tail === null);
  drawResamples(unknown, 9 * samples, rng);
  return resamplings.map(summarizeResampling);
}

export function pairedBootstrap(
  ...[first, second, rng, samples]: [...ModelPair, rng: Rng, samples?: number]
): BootstrapResult {
  return bootstrapPairs([[first, second]], rng, samples)[0]!;
}

/** The gaps of a pair, and what its resamples have given so far. */
interface Resampling {
  readonly gaps: readonly Float64Array[];
  /** Adds up seeds that were drawn so often. */
  readonly sumSeeds: (counts: Uint32Array) => Float64Array;
  /** The means of the first resamples. */
  readonly means: Float64Array;
  draws: number;
  atMostZero: number;
  atLeastZero: number;
  /** The exact probability of the rarer side of zero, if it is rare and could be computed. */
  tail: number | null;
}

function createResampling([first, second]: ModelPair, samples: number): Resampling {
  const examples = first[0]?.length ?? 0;
  const isPaired =
    second.length === first.length && examples > 0 && [...first, ...second].every((row) => row.length === examples);
  if (!isPaired) throw new RangeError("expected the same seeds and examples for both models");
  const gaps = first.map((row, seed) => Float64Array.from(row, (value, i) => value - second[seed]![i]!));
  const means = new Float64Array(samples);
  return { gaps, sumSeeds: createSeedSums(gaps), means, draws: 0, atMostZero: 0, atLeastZero: 0, tail: null };
}

function isRare({ atMostZero, atLeastZero }: Resampling): boolean {
  return Math.min(atMostZero, atLeastZero) < rareResamples;
}

function drawResamples(resamplings: readonly Resampling[], count: number, rng: Rng): void {
  if (resamplings.length === 0) return;
  const { gaps } = resamplings[0]!;
  const counts = new Uint32Array(gaps.length);
  const indices = new Uint32Array(gaps[0]!.length);
  for (let i = 0; i < count; i++) {
    counts.fill(0);
    for (let seed = 0; seed < counts.length; seed++) counts[rng.integer(counts.length)]!++;
    rng.fillIndices(indices);
    for (const each of resamplings) {
      const value = sumAt(each.sumSeeds(counts), indices) / (counts.length * indices.length);
      if (each.draws < each.means.length) each.means[each.draws] = value;
      each.draws++;
      if (value <= 0) each.atMostZero++;
      if (value >= 0) each.atLeastZero++;
    }
  }
}

function sumAt(values: Float64Array, indices: Uint32Array): number {
  let sum = 0;
  for (let i = 0; i < indices.length; i++) sum += values[indices[i]!]!;
  return sum;
}

function summarizeResampling({ gaps, means, draws, atMostZero, atLeastZero, tail }: Resampling): BootstrapResult {
  const same = gaps.every((row) => row.every((gap) => gap === gaps[0]![0])) ? gaps[0]![0]! : null;
  const unseen = wilsonInterval(0, gaps[0]!.length).high;
  return {
    difference: mean(gaps.map(mean)),
    low: same === null ? quantile(means, (1 - confidence) / 2) : Math.max(-1, same - unseen),
    high: same === null ? quantile(means, (1 + confidence) / 2) : Math.min(1, same + unseen),
    p:
      tail === null
        ? Math.min(1, (2 * (Math.min(atMostZero, atLeastZero) + 1)) / (draws + 1))
        : Math.min(1, Math.max(2 * tail, 2 / (10 * means.length + 1))),
  };
}

/** With more seeds, there are more ways to draw them than it pays to list. */
const maxListedSeeds = 6;

/**
 * The probability that a resample of integers has a sum of at most 0, or with sign -1 of at least 0, over all
 * ways to draw the seeds. Null if the gaps are not integers, or if there are many seeds.
 */
function computeResampleTail(gaps: readonly Float64Array[], sign: 1 | -1): number | null {
  const [seeds, examples] = [gaps.length, gaps[0]!.length];
  if (seeds > maxListedSeeds || !gaps.every((row) => row.every(Number.isInteger))) return null;
  let tail = 0;
  const add = (counts: readonly number[]): void => {
    // The number of ways to draw each seed so often, of all ways.
    const ways = counts.reduce((sum, count) => sum - logGamma(count + 1), logGamma(seeds + 1));
    const numbers = new Map<number, number>();
    for (let j = 0; j < examples; j++) {
      let sum = 0;
      for (let i = 0; i < seeds; i++) sum += counts[i]! * gaps[i]![j]!;
      numbers.set(sign * sum, (numbers.get(sign * sum) ?? 0) + 1);
    }
    const probabilities = Array.from(numbers.values(), (number) => number / examples);
    const distribution = { values: [...numbers.keys()], probabilities };
    tail += Math.exp(ways - seeds * Math.log(seeds)) * computeSumTail(distribution, examples, 0);
  };
  const list = (counts: readonly number[], left: number): void => {
    if (counts.length === seeds - 1) add([...counts, left]);
    else for (let count = 0; count <= left; count++) list([...counts, count], left - count);
  };
  list([], seeds);
  return tail;
}

/** A few rows have few sums, so they are remembered. */
function createSeedSums(rows: readonly Float64Array[]): (counts: Uint32Array) => Float64Array {
  const known = new Map<number, Float64Array>();
  return (counts) => {
    const key = counts.reduce((number, count) => number * (rows.length + 1) + count, 0);
    const found = known.get(key);
    if (found) return found;
    const sums = new Float64Array(rows[0]!.length);
    for (const [i, row] of rows.entries())
      if (counts[i]! > 0) for (let j = 0; j < sums.length; j++) sums[j] = sums[j]! + counts[i]! * row[j]!;
    if (rows.length <= maxListedSeeds) known.set(key, sums);
    return sums;
  };
}

/**
 * 95% CIs of statistics of a sample, by resampling its examples with replacement. `compute`
 * receives how often each example was drawn, and must not keep that array. A resample on which a
 * statistic is not defined is left out of its interval.
 */
export function bootstrapIntervals(
  examples: number,
  compute: (draws: Float64Array) => readonly number[],
  rng: Rng,
  samples = 1000,
): Interval[] {
  const draws = new Float64Array(examples);
  const resamples = Array.from({ length: samples }, () => {
    draws.fill(0);
    for (let i = 0; i < examples; i++) draws[rng.integer(examples)]! += 1;
    return [...compute(draws)];
  });
  return resamples[0]!.map((_, i) => {
    const values = resamples.map((row) => row[i]!).filter(Number.isFinite);
    return { low: quantile(values, 0.025), high: quantile(values, 0.975) };
  });
}

interface PowerOptions {
  /**
   * Accuracy of both models. It is used if `discordant` is unknown, and assumes independent errors.
   */
  readonly accuracy?: number;
  /** Fraction of examples that only one of the models classifies correctly. */
  readonly discordant?: number;
}

/**
 * Computes the smallest difference that a paired test at the 5% level detects with the given power.
 */
export function minDetectableDifference(
  count: number,
  options: PowerOptions & { readonly power?: number } = {},
): number {
  const { accuracy = 0.5, discordant = 2 * accuracy * (1 - accuracy), power = 0.8 } = options;
  const standardErrors = normalQuantile(0.975) + normalQuantile(power);
  return Math.min(1, standardErrors * Math.sqrt(discordant / count));
}

/**
 * Describes in one sentence which differences `count` examples can show. Accuracy and discordance
 * are estimates, so the least favorable value in their 95% CI counts: at 0% and 100%, too, models
 * can differ.
 */
export function describePower(count: number, { accuracy = 0.5, discordant }: PowerOptions = {}): string {
  const { low, high } = wilsonInterval(accuracy * count, count);
  const worst =
    discordant === undefined
      ? { accuracy: Math.min(high, Math.max(low, 0.5)) }
      : { discordant: wilsonInterval(discordant * count, count).high };
  const points = (100 * minDetectableDifference(count, worst)).toFixed(1);
  const limit = `With ${count} examples, differences below ${points} points cannot be detected reliably`;
  return `${limit} (80% power at the 5% level).`;
}
