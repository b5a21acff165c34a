import { free, keep, noGrad, scope, type Tensor, tensor, topk } from "../tensor/index.js";
import type { WordVectors } from "./vectors.js";

/** The limits of a word's neighborhood. */
export interface NeighborOptions {
  readonly maxNeighbors: number;
  /** Neighbors are closer than this squared Euclidean distance. */
  readonly maxSquaredDistance: number;
}

/** The neighbors of each word of a block, nearest first, as indices. */
export type NeighborBlock = readonly (readonly number[])[];

/** The rounding of float32 can change the order of this many candidates around the last one. */
const spareCandidates = 16;

/** Distances computed at a time: 64 MB. */
const maxDistances = 1 << 24;

export interface NeighborSearch {
  /** Words per block. */
  readonly blockSize: number;
  search(start: number): NeighborBlock;
  free(): void;
}

/**
 * Searches nearest neighbors block by block. libtorch finds candidates in float32; their distances
 * are then computed in float64 in a fixed order, so that the result is the same on every host.
 */
export function createNeighborSearch(vectors: WordVectors, options: NeighborOptions): NeighborSearch {
  const { words, dimension, values } = vectors;
  const count = words.length;
  const blockSize = Math.max(1, Math.min(1024, Math.floor(maxDistances / count)));
  const candidates = Math.min(count, options.maxNeighbors + 1 + spareCandidates);
  const norms = Float32Array.from(words, (_, i) => computeSquaredDistance(values, dimension, i, null));
  const kept = keep({ all: tensor(values, [count, dimension]), norms: tensor(norms, [count]) });
  return {
    blockSize,
    search(start) {
      const end = Math.min(count, start + blockSize);
      const found = scope(() => noGrad(() => findCandidates(kept.all, kept.norms, start, end, candidates)));
      return Array.from({ length: end - start }, (_, i) => {
        const row = found.subarray(i * candidates, (i + 1) * candidates);
        return rankNeighbors(vectors, start + i, row, options);
      });
    },
    free: () => free(kept),
  };
}

/** |a - b|^2 = |a|^2 - 2 ab + |b|^2, and |a|^2 is the same for all candidates b. */
function findCandidates(all: Tensor, norms: Tensor, start: number, end: number, candidates: number): Int32Array {
  const block = all.narrow(0, start, end - start);
  const closeness = block.matmul(all.transpose(0, 1)).mul(2).sub(norms);
  const [, indices] = topk(closeness, candidates, 1);
  return indices.to("int32").toInt32Array();
}

function rankNeighbors(
  { values, dimension }: WordVectors,
  word: number,
  candidates: Int32Array,
  { maxNeighbors, maxSquaredDistance }: NeighborOptions,
): number[] {
  return Array.from(candidates)
    .filter((other) => other !== word)
    .map((other) => ({ other, distance: computeSquaredDistance(values, dimension, word, other) }))
    .filter(({ distance }) => distance < maxSquaredDistance)
    .sort((a, b) => a.distance - b.distance || a.other - b.other)
    .slice(0, maxNeighbors)
    .map(({ other }) => other);
}

/** The squared distance of two rows; with null, of a row to the origin. */
function computeSquaredDistance(values: Float32Array, dimension: number, word: number, other: number | null): number {
  let sum = 0;
  for (let i = 0; i < dimension; i++) {
    const difference = values[word * dimension + i]! - (other === null ? 0 : values[other * dimension + i]!);
    sum += difference * difference;
  }
  return sum;
}
