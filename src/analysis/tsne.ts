import type { Rng } from "../tensor/random.js";
import { squaredDistance } from "./alignment-uniformity.js";

export interface TsneOptions {
  readonly perplexity?: number;
  readonly iterations?: number;
  readonly onIteration?: (done: number, total: number) => void;
}

/** While clusters form, likenesses count this many times. */
const earlyExaggeration = 12;
const earlyExaggerationSteps = 250;

/** Exact t-SNE in two dimensions (van der Maaten and Hinton 2008), for some hundreds of points; the same stream gives the same picture. */
export function tsne(rows: readonly ArrayLike<number>[], rng: Rng, options: TsneOptions = {}): [number, number][] {
  const { iterations = 750, onIteration } = options;
  const count = rows.length;
  // A point needs about three times the perplexity in neighbours.
  const perplexity = Math.min(options.perplexity ?? 30, (count - 1) / 3);
  const likeness = computeJointProbabilities(rows, perplexity);
  const rate = Math.max(count / earlyExaggeration, 50);
  const places = Float64Array.from({ length: 2 * count }, () => 1e-4 * rng.normal());
  const speed = new Float64Array(2 * count);
  const gains = new Float64Array(2 * count).fill(1);
  const slope = new Float64Array(2 * count);
  for (let step = 0; step < iterations; step++) {
    computeGradient(places, likeness, step < earlyExaggerationSteps ? earlyExaggeration : 1, slope);
    const momentum = step < earlyExaggerationSteps ? 0.5 : 0.8;
    for (let i = 0; i < places.length; i++) {
      gains[i] = Math.max(0.01, slope[i]! > 0 === speed[i]! > 0 ? gains[i]! * 0.8 : gains[i]! + 0.2);
      speed[i] = momentum * speed[i]! - rate * gains[i]! * slope[i]!;
      places[i]! += speed[i]!;
    }
    onIteration?.(step + 1, iterations);
  }
  return Array.from({ length: count }, (_, i) => [places[2 * i]!, places[2 * i + 1]!]);
}

/** Symmetric probabilities p_ij of being neighbours, row-major. */
function computeJointProbabilities(rows: readonly ArrayLike<number>[], perplexity: number): Float64Array {
  const count = rows.length;
  const distances = new Float64Array(count * count);
  for (let i = 0; i < count; i++)
    for (let j = 0; j < i; j++)
      distances[i * count + j] = distances[j * count + i] = squaredDistance(rows[i]!, rows[j]!);
  const one = new Float64Array(count * count);
  for (let i = 0; i < count; i++)
    computeNeighborProbabilities(
      distances.subarray(i * count, (i + 1) * count),
      i,
      perplexity,
      one.subarray(i * count, (i + 1) * count),
    );
  const joint = new Float64Array(count * count);
  for (let i = 0; i < count; i++)
    for (let j = 0; j < count; j++)
      joint[i * count + j] = Math.max(1e-12, (one[i * count + j]! + one[j * count + i]!) / (2 * count));
  return joint;
}

/** Gaussian neighbour probabilities of one point, as wide as gives the perplexity: its precision is found by bisection. */
function computeNeighborProbabilities(
  distances: Float64Array,
  self: number,
  perplexity: number,
  into: Float64Array,
): void {
  const least = distances.reduce(
    (low, value, j) => (j === self ? low : Math.min(low, value)),
    Number.POSITIVE_INFINITY,
  );
  let [precision, low, high] = [1, 0, Number.POSITIVE_INFINITY];
  for (let turn = 0; turn < 64; turn++) {
    let [sum, weighted] = [0, 0];
    for (let j = 0; j < distances.length; j++) {
      // Less the least: far points would all round to 0.
      const value = j === self ? 0 : Math.exp(-precision * (distances[j]! - least));
      into[j] = value;
      sum += value;
      weighted += value * (distances[j]! - least);
    }
    const entropy = Math.log(sum) + (precision * weighted) / sum;
    for (let j = 0; j < into.length; j++) into[j]! /= sum;
    const excess = entropy - Math.log(perplexity);
    if (Math.abs(excess) < 1e-5) return;
    if (excess > 0) low = precision;
    else high = precision;
    precision = high === Number.POSITIVE_INFINITY ? precision * 2 : (low + high) / 2;
  }
}

/** The slope of KL(P || Q): 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2). */
function computeGradient(places: Float64Array, likeness: Float64Array, factor: number, slope: Float64Array): void {
  const count = places.length / 2;
  let total = 0;
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const x = places[2 * i]! - places[2 * j]!;
      const y = places[2 * i + 1]! - places[2 * j + 1]!;
      total += 2 / (1 + x * x + y * y);
    }
  }
  slope.fill(0);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const x = places[2 * i]! - places[2 * j]!;
      const y = places[2 * i + 1]! - places[2 * j + 1]!;
      const near = 1 / (1 + x * x + y * y);
      const pull = 4 * (factor * likeness[i * count + j]! - near / total) * near;
      slope[2 * i]! += pull * x;
      slope[2 * i + 1]! += pull * y;
      slope[2 * j]! -= pull * x;
      slope[2 * j + 1]! -= pull * y;
    }
  }
}
