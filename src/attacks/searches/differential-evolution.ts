import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import { type Search, score } from "../protocol.js";

/** Texts as vectors of numbers. */
export interface VectorEncoding {
  /** The largest value of each number of a vector; the smallest is 0. */
  getLimits(text: EditedText, positions: readonly number[]): readonly number[];
  /** The text with the changes of a vector, at some of the positions. */
  decode(text: EditedText, positions: readonly number[], vector: readonly number[]): EditedText;
}

const recombination = 0.7;

/**
 * Differential evolution with the strategy best1bin and dithering, as in SciPy, without its
 * polishing at the end. It stops when the goal is reached.
 */
export function differentialEvolutionSearch(
  encoding: VectorEncoding,
  { population, iterations }: { readonly population: number; readonly iterations: number },
): Search {
  return {
    name: `differential evolution, ${iterations} generations`,
    cost: `${population} per number of the vector, per generation`,
    *run(problem, stream) {
      const rng = stream.fork("search");
      const { text } = problem.original;
      const positions = problem.findOpenPositions(text);
      const limits = encoding.getLimits(text, positions);
      if (limits.some((limit) => limit <= 0)) return text;
      let vectors = sampleLatinHypercube(limits, population * limits.length, rng);
      let members = yield* score(vectors.map((vector) => ({ text: encoding.decode(text, positions, vector) })));
      for (let iteration = 0; ; iteration++) {
        const best = members.reduce((a, b, i) => (b.value > members[a]!.value ? i : a), 0);
        if (members[best]!.isReached || iteration === iterations) return members[best]!.text;
        const mutation = 0.5 + 0.5 * rng.next();
        const trials = vectors.map((vector, i) => recombine(vector, vectors, best, i, mutation, limits, rng));
        const scored = yield* score(trials.map((vector) => ({ text: encoding.decode(text, positions, vector) })));
        const isBetter = scored.map(({ value }, i) => value >= members[i]!.value);
        vectors = vectors.map((vector, i) => (isBetter[i] ? trials[i]! : vector));
        members = members.map((member, i) => (isBetter[i] ? scored[i]! : member));
      }
    },
  };
}

/** best + mutation * (a - b), mixed with the vector itself. */
function recombine(
  vector: readonly number[],
  vectors: readonly (readonly number[])[],
  best: number,
  index: number,
  mutation: number,
  limits: readonly number[],
  rng: Rng,
): number[] {
  const others = [...vectors.keys()].filter((other) => other !== index);
  const a = vectors[others[rng.integer(others.length)]!]!;
  const b = vectors[others[rng.integer(others.length)]!]!;
  const always = rng.integer(limits.length);
  return limits.map((limit, k) => {
    if (k !== always && rng.next() >= recombination) return vector[k]!;
    const value = vectors[best]![k]! + mutation * (a[k]! - b[k]!);
    // Values outside the range are drawn anew.
    return value >= 0 && value <= limit ? value : rng.next() * limit;
  });
}

/** One value in each of `count` equal parts of each range, in random order. */
function sampleLatinHypercube(limits: readonly number[], count: number, rng: Rng): number[][] {
  const columns = limits.map((limit) =>
    rng.shuffle(Array.from({ length: count }, (_, i) => ((i + rng.next()) / count) * limit)),
  );
  return Array.from({ length: count }, (_, i) => columns.map((column) => column[i]!));
}
