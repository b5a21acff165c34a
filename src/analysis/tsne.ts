import type { Rng } from "../base/rng.js";

export function squaredDistance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return sum;
}

/** Factor of the probabilities in the first steps, so that clusters form early. */
const earlyExaggeration = 12;
const earlyExaggerationSteps = 250;

/** Exact t-SNE in two dimensions (van der Maaten and Hinton 2008), for a few hundred points. */
export function tsne(
  rows: readonly ArrayLike<number>[],
  rng: Rng,
  options: { readonly perplexity?: number; readonly iterations?: number } = {},
): [number, number][] {
  const { iterations = 750 } = options;
  const count = rows.length;
  // A point needs about three times as many neighbors as the perplexity.
  const perplexity = Math.min(options.perplexity ?? 30, (count - 1) / 3);
  const probabilities = computeJointProbabilities(rows, perplexity);
  const learningRate = Math.max(count / earlyExaggeration, 50);
  const positions = Float64Array.from({ length: 2 * count }, () => 1e-4 * rng.normal());
  const velocity = new Float64Array(2 * count);
  const gains = new Float64Array(2 * count).fill(1);
  const gradient = new Float64Array(2 * count);
  for (let step = 0; step < iterations; step++) {
    computeGradient(positions, probabilities, step < earlyExaggerationSteps ? earlyExaggeration : 1, gradient);
    const momentum = step < earlyExaggerationSteps ? 0.5 : 0.8;
    for (let i = 0; i < positions.length; i++) {
      gains[i] = Math.max(0.01, gradient[i]! > 0 === velocity[i]! > 0 ? gains[i]! * 0.8 : gains[i]! + 0.2);
      velocity[i] = momentum * velocity[i]! - learningRate * gains[i]! * gradient[i]!;
      positions[i]! += velocity[i]!;
    }
  }
  return Array.from({ length: count }, (_, i) => [positions[2 * i]!, positions[2 * i + 1]!]);
}

/** Symmetric probabilities p_ij that i and j are neighbors, row-major. */
function computeJointProbabilities(rows: readonly ArrayLike<number>[], perplexity: number): Float64Array {
  const count = rows.length;
  const distances = new Float64Array(count * count);
  for (let i = 0; i < count; i++)
    for (let j = 0; j < i; j++)
      distances[i * count + j] = distances[j * count + i] = squaredDistance(rows[i]!, rows[j]!);
  const conditional = new Float64Array(count * count);
  const getRow = (matrix: Float64Array, i: number): Float64Array => matrix.subarray(i * count, (i + 1) * count);
  for (let i = 0; i < count; i++)
    computeNeighborProbabilities(getRow(distances, i), i, perplexity, getRow(conditional, i));
  const joint = new Float64Array(count * count);
  for (let i = 0; i < count; i++)
    for (let j = 0; j < count; j++)
      joint[i * count + j] = Math.max(1e-12, (conditional[i * count + j]! + conditional[j * count + i]!) / (2 * count));
  return joint;
}

/** Gaussian neighbor probabilities of one point. Bisection finds the precision. */
function computeNeighborProbabilities(
  distances: Float64Array,
  self: number,
  perplexity: number,
  probabilities: Float64Array,
): void {
  const minimum = Math.min(...distances.filter((_, j) => j !== self));
  let [precision, low, high] = [1, 0, Number.POSITIVE_INFINITY];
  for (let iteration = 0; iteration < 64; iteration++) {
    let [sum, weighted] = [0, 0];
    for (let j = 0; j < distances.length; j++) {
      // Subtract the minimum; otherwise the values of far points would all round to 0.
      const value = j === self ? 0 : Math.exp(-precision * (distances[j]! - minimum));
      probabilities[j] = value;
      sum += value;
      weighted += value * (distances[j]! - minimum);
    }
    const entropy = Math.log(sum) + (precision * weighted) / sum;
    for (let j = 0; j < probabilities.length; j++) probabilities[j]! /= sum;
    const excess = entropy - Math.log(perplexity);
    if (Math.abs(excess) < 1e-5) return;
    if (excess > 0) low = precision;
    else high = precision;
    precision = high === Number.POSITIVE_INFINITY ? precision * 2 : (low + high) / 2;
  }
}

/** The gradient of KL(P || Q): 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2). */
function computeGradient(
  positions: Float64Array,
  probabilities: Float64Array,
  factor: number,
  gradient: Float64Array,
): void {
  const count = positions.length / 2;
  let total = 0;
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const x = positions[2 * i]! - positions[2 * j]!;
      const y = positions[2 * i + 1]! - positions[2 * j + 1]!;
      total += 2 / (1 + x * x + y * y);
    }
  }
  gradient.fill(0);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const x = positions[2 * i]! - positions[2 * j]!;
      const y = positions[2 * i + 1]! - positions[2 * j + 1]!;
      const near = 1 / (1 + x * x + y * y);
      const pull = 4 * (factor * probabilities[i * count + j]! - near / total) * near;
      gradient[2 * i]! += pull * x;
      gradient[2 * i + 1]! += pull * y;
      gradient[2 * j]! -= pull * x;
      gradient[2 * j + 1]! -= pull * y;
    }
  }
}
