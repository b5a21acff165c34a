import type { Rng } from "../../tensor/random.js";
import { type EditSearch, type ScoredText, type SearchGenerator, score } from "../recipe.js";
import { recombination, sampleLatinHypercube, type VectorEncoding } from "./differential-evolution.js";

/** SciPy ends when the standard deviation of the values is this fraction of their mean. */
const tolerance = 0.01;

/**
 * Differential evolution as TextAttack 0.3.11 calls SciPy: the population changes after every
 * trial, the search goes on after a success until the values converge, and a gradient step at the
 * end costs one query per number of the vector and one more. Of equal texts, the last one wins.
 */
export function textAttackEvolutionSearch(
  encoding: VectorEncoding,
  { populationSize, iterations }: { readonly populationSize: number; readonly iterations: number },
): EditSearch {
  return {
    name: `SciPy's differential evolution, ${iterations} generations`,
    cost: `${populationSize} per number of the vector, per generation`,
    *run(problem, rng) {
      const { text } = problem.original;
      const positions = problem.findOpenPositions(text);
      const limits = encoding.getLimits(text, positions);
      if (limits.some((limit) => limit <= 0)) return text;
      let found: ScoredText | undefined;
      const evaluate = function* (vector: readonly number[]): SearchGenerator<number> {
        const [scored] = yield* score([{ text: encoding.decode(text, positions, vector) }]);
        if (found === undefined || scored!.value >= found.value) found = scored!;
        return scored!.value;
      };
      const vectors = sampleLatinHypercube(limits, Math.max(5, populationSize * limits.length), rng);
      const values: number[] = [];
      for (const vector of vectors) values.push(yield* evaluate(vector));
      moveBestToFront(vectors, values);
      for (let iteration = 0; iteration < iterations; iteration++) {
        const mutation = 0.5 + 0.5 * rng.next();
        for (const [i, vector] of vectors.entries()) {
          const trial = recombine(vector, vectors, i, mutation, limits, rng);
          const value = yield* evaluate(trial);
          if (value < values[i]!) continue;
          vectors[i] = trial;
          values[i] = value;
          if (value > values[0]!) moveBestToFront(vectors, values);
        }
        if (isConverged(values)) break;
      }
      for (let step = 0; step <= limits.length; step++) yield* evaluate(vectors[0]!);
      return found!.text;
    },
  };
}

function isConverged(values: readonly number[]): boolean {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return Math.sqrt(variance) <= tolerance * Math.abs(mean);
}

function moveBestToFront(vectors: number[][], values: number[]): void {
  const best = values.reduce((a, value, i) => (value > values[a]! ? i : a), 0);
  [vectors[0], vectors[best]] = [vectors[best]!, vectors[0]!];
  [values[0], values[best]] = [values[best]!, values[0]!];
}

/** best + mutation * (a - b) with two different others, mixed with the vector itself. */
function recombine(
  vector: readonly number[],
  vectors: readonly (readonly number[])[],
  index: number,
  mutation: number,
  limits: readonly number[],
  rng: Rng,
): number[] {
  const others = [...vectors.keys()].filter((other) => other !== index);
  const first = rng.integer(others.length);
  const second = (first + 1 + rng.integer(others.length - 1)) % others.length;
  const [a, b] = [vectors[others[first]!]!, vectors[others[second]!]!];
  const always = rng.integer(limits.length);
  return limits.map((limit, k) => {
    if (k !== always && rng.next() >= recombination) return vector[k]!;
    const value = vectors[0]![k]! + mutation * (a[k]! - b[k]!);
    return value >= 0 && value <= limit ? value : rng.next() * limit;
  });
}
