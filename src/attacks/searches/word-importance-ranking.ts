import type { Rng } from "../../tensor/random.js";
import type { EditedText } from "../edited-text.js";
import {
  type EditProblem,
  type EditSearch,
  expand,
  request,
  type ScoredText,
  type SearchGenerator,
  score,
  scoreCandidates,
  type TransformationKind,
} from "../recipe.js";
import type { GradientSource } from "../resources.js";

/**
 * How words are ranked by the value of the text without them:
 * - unk: the word is replaced by the unknown token, or by `unkWord`.
 * - delete: the word is deleted.
 * - weighted-saliency: softmax of the unk values times the best value of the word's candidates.
 * - random: no ranking.
 * - gradient: the norm of the loss gradient at the word's tokens.
 */
export type Ranking =
  | { readonly by: "unk" | "weighted-saliency"; readonly unkWord?: string | undefined }
  | { readonly by: "delete" | "random" }
  | { readonly by: "gradient"; readonly source: GradientSource };

/** How the ranked words are visited. */
export interface VisitOptions {
  /** A word is visited once with each of these kinds of transformations. */
  readonly stages?: readonly TransformationKind[] | undefined;
  /** TextAttack visits the positions of the original text, even if its words have moved. */
  readonly keepsPositions?: boolean;
}

/**
 * Ranks the words once, then visits each word once in that order. A word takes the best candidate
 * of the current text if that is better than the current text. Among candidates that reach the
 * goal, the one with the highest similarity wins.
 */
export function rankWordsAndReplace(ranking: Ranking, options: VisitOptions = {}): EditSearch {
  const { stages = [undefined], keepsPositions = false } = options;
  return {
    name: `greedy, words ranked by ${ranking.by}`,
    cost:
      ranking.by === "weighted-saliency"
        ? "1 + words + twice the candidates of all words"
        : "1 + words + the candidates of the words visited",
    *run(problem, rng) {
      const origins = yield* rankWords(problem, ranking, rng);
      let current = problem.original;
      for (const origin of origins)
        for (const only of stages) {
          const text = keepsPositions ? current.text.splitAgain() : current.text;
          // Insertions and deletions move words, so positions are found anew.
          const position = keepsPositions ? origin : text.findOrigin(origin);
          if (position < 0 || position >= text.length) continue;
          const results = yield* scoreCandidates(text, [position], only);
          const best = results[0];
          if (!best || best.value <= current.value) continue;
          current = best;
          if (best.isReached && !problem.isMaximized) return selectMostSimilar(results);
        }
      return current.text;
    },
  };
}

/** Of the best results in a row that reach the goal, the one that is most similar. */
function selectMostSimilar(results: readonly ScoredText[]): EditedText {
  const end = results.findIndex(({ isReached }) => !isReached);
  const reached = results.slice(0, end < 0 ? results.length : end);
  const getSimilarity = ({ text }: ScoredText): number => text.similarity ?? Number.NEGATIVE_INFINITY;
  return reached.reduce((best, next) => (getSimilarity(next) > getSimilarity(best) ? next : best)).text;
}

/** The open words of the original text, most important first, as indices of original words. */
function* rankWords(problem: EditProblem, ranking: Ranking, rng: Rng): SearchGenerator<number[]> {
  const { text } = problem.original;
  const positions = problem.findOpenPositions(text);
  if (ranking.by === "random") return rng.shuffle([...positions]);
  const importance =
    ranking.by === "gradient"
      ? yield* measureGradients(problem, positions, ranking.source)
      : yield* measureImportance(text, positions, ranking);
  return positions
    .map((position, i) => ({ position, value: importance[i]! }))
    .sort((a, b) => b.value - a.value || a.position - b.position)
    .map(({ position }) => position);
}

function* measureImportance(
  text: EditedText,
  positions: readonly number[],
  ranking: Exclude<Ranking, { by: "gradient" } | { by: "random" }>,
): SearchGenerator<number[]> {
  const probes = positions.map((position) => {
    if (ranking.by === "delete") return { text: text.apply({ kind: "delete", position }), isProbe: true };
    const word = "unkWord" in ranking ? ranking.unkWord : undefined;
    if (word === undefined) return { text, mask: position };
    return { text: text.apply({ kind: "replace", position, word }), isProbe: true };
  });
  const values = (yield* score(probes)).map(({ value }) => value);
  if (ranking.by !== "weighted-saliency") return values;
  const lists: (readonly EditedText[])[] = [];
  for (const position of positions) lists.push(yield* expand(text, [position]));
  const scored = yield* score(lists.flat().map((candidate) => ({ text: candidate })));
  const exponentials = values.map(Math.exp);
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  let start = 0;
  return lists.map((list, i) => {
    const own = scored.slice(start, start + list.length);
    start += list.length;
    return own.length === 0 ? 0 : (exponentials[i]! / total) * Math.max(...own.map(({ value }) => value));
  });
}

function* measureGradients(
  { original: { text }, label }: EditProblem,
  positions: readonly number[],
  source: GradientSource,
): SearchGenerator<number[]> {
  const [gradients] = yield* request(source, [{ texts: text.texts, label, flips: 0 }]);
  return positions.map((position) => {
    const { field, start, end } = text.slots[position]!;
    const tokens = gradients!.filter((token) => token.field === field && token.start < end && token.end > start);
    return tokens.length === 0 ? 0 : tokens.reduce((sum, { norm }) => sum + norm, 0) / tokens.length;
  });
}
