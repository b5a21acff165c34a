import { createHash } from "node:crypto";
import { matchCase, type Substitutions } from "./substitutions.js";
import type { WordVectors } from "./vectors.js";

/** Neighbors that are kept per word: as many as any recipe uses. */
const maxNeighbors = 50;

/**
 * Finds the nearest neighbors of words by the cosine of their vectors, when they are needed. The
 * published thresholds of recipes are for the counter-fitted vectors.
 */
export function createVectorNeighbors(
  { words, dimension, values }: WordVectors,
  name: string,
): Substitutions & { computeSimilarity(first: string, second: string): number | undefined } {
  const rows = new Map(words.map((word, row) => [word, row]));
  const unit = new Float32Array(values.length);
  for (let row = 0; row < words.length; row++) {
    let squares = 0;
    for (let i = 0; i < dimension; i++) squares += values[row * dimension + i]! ** 2;
    const norm = Math.sqrt(squares) || 1;
    for (let i = 0; i < dimension; i++) unit[row * dimension + i] = values[row * dimension + i]! / norm;
  }
  const computeCosine = (first: number, second: number): number => {
    let sum = 0;
    for (let i = 0; i < dimension; i++) sum += unit[first * dimension + i]! * unit[second * dimension + i]!;
    return sum;
  };
  const cache = new Map<string, readonly string[]>();
  const findNeighbors = (word: string): readonly string[] => {
    const row = rows.get(word);
    if (row === undefined) return [];
    const cosines = Float32Array.from(words, (_, other) => (other === row ? -2 : computeCosine(row, other)));
    const nearest = [...cosines.keys()].sort((a, b) => cosines[b]! - cosines[a]! || a - b).slice(0, maxNeighbors);
    return nearest.filter((other) => other !== row).map((other) => words[other]!);
  };
  return {
    name,
    hash: createHash("sha256").update(words.join("\n")).update(values).digest("hex"),
    usesPartOfSpeech: false,
    getSubstitutes(word) {
      const key = word.toLowerCase();
      const found = cache.get(key) ?? findNeighbors(key);
      cache.set(key, found);
      return found.map((other) => matchCase(word, other));
    },
    computeSimilarity(first, second) {
      const [a, b] = [rows.get(first.toLowerCase()), rows.get(second.toLowerCase())];
      return a === undefined || b === undefined ? undefined : computeCosine(a, b);
    },
  };
}
