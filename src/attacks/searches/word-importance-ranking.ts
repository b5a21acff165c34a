import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import {
  type HiddenWord,
  type Problem,
  type ScoredText,
  type Search,
  type SearchGenerator,
  score,
  scoreCandidates,
  type TransformationKind,
} from "../protocol.js";
import { request } from "../requests.js";
import type { GradientSource } from "../resources.js";

/**
 * The ranking of words, most important first:
 * - delete: by the value of the text without the word.
 * - unk: by its value with the unknown token, or with `unkWord`, in the place of the word.
 * - order: in the order of the text.
 * - random: in random order.
 * - gradient: by the norm of the loss gradient at the word's tokens.
 */
export type Ranking =
  | { readonly by: "unk"; readonly unkWord?: string | undefined }
  | { readonly by: "delete" | "order" | "random" }
  | { readonly by: "gradient"; readonly source: GradientSource };

/**
 * Ranks the words once, then visits each word once in that order. `stages`: a word is visited once
 * with each of these kinds of transformations.
 */
export function rankWordsAndReplace(ranking: Ranking, stages?: readonly TransformationKind[]): Search {
  return {
    name: `greedy, words ${ranking.by === "order" ? "in the order of the text" : `ranked by ${ranking.by}`}`,
    cost: `1${["unk", "delete"].includes(ranking.by) ? " + words" : ""} + the candidates of the words visited`,
    run: (problem, rng) => visitRankedWords(problem, ranking, rng, stages),
  };
}

function* visitRankedWords(
  problem: Problem,
  ranking: Ranking,
  rng: Rng,
  stages?: readonly TransformationKind[],
): SearchGenerator {
  return yield* visitWords(problem, yield* rankWords(problem, ranking, rng), stages);
}

/**
 * Visits original words in order. A word takes the best candidate of the current text if that is
 * better than the current text. Among candidates that reach the goal, the one with the highest
 * similarity wins.
 */
export function* visitWords(
  problem: Problem,
  origins: readonly number[],
  stages: readonly (TransformationKind | undefined)[] = [undefined],
): SearchGenerator {
  let current = problem.original;
  for (const origin of origins)
    for (const only of stages) {
      // Insertions and deletions move words, so positions are found anew.
      const position = current.text.findOrigin(origin);
      if (position < 0) continue;
      const results = yield* scoreCandidates(current.text, [position], only);
      const best = results[0];
      if (!best || best.value <= current.value) continue;
      current = best;
      if (best.isReached && !problem.isMaximized) return selectMostSimilar(results);
    }
  return current.text;
}

/** Of the best results in a row that reach the goal, the one that is most similar. */
function selectMostSimilar(results: readonly ScoredText[]): EditedText {
  const end = results.findIndex(({ isReached }) => !isReached);
  const reached = results.slice(0, end < 0 ? results.length : end);
  const getSimilarity = ({ text }: ScoredText): number => text.similarity ?? Number.NEGATIVE_INFINITY;
  return reached.reduce((best, next) => (getSimilarity(next) > getSimilarity(best) ? next : best)).text;
}

/** The open words of the original text, most important first, as indices of original words. */
export function* rankWords(problem: Problem, ranking: Ranking, rng: Rng): SearchGenerator<number[]> {
  const { text } = problem.original;
  const positions = problem.findOpenPositions(text);
  if (ranking.by === "order") return positions;
  if (ranking.by === "random") return rng.fork("search").shuffle([...positions]);
  const importance =
    ranking.by === "gradient"
      ? yield* measureGradients(problem, positions, ranking.source)
      : yield* measureWithout(text, positions, ranking.by === "unk" ? showUnknown(ranking.unkWord) : null);
  return positions
    .map((position, i) => ({ position, value: importance[i]! }))
    .sort((a, b) => b.value - a.value || a.position - b.position)
    .map(({ position }) => position);
}

/** Stands for an unknown word: a given word, or the unknown token of the victim. */
export function showUnknown(word: string | null | undefined): HiddenWord["shown"] {
  return word == null ? { unknown: true } : { word };
}

/** The values of a text with one word hidden at a time. */
function* measureWithout(
  text: EditedText,
  positions: readonly number[],
  shown: HiddenWord["shown"],
): SearchGenerator<number[]> {
  const scored = yield* score(positions.map((position) => ({ text, hidden: { position, shown } })));
  return scored.map(({ value }) => value);
}

function* measureGradients(
  problem: Problem,
  positions: readonly number[],
  source: GradientSource,
): SearchGenerator<number[]> {
  const norms = yield* requestNorms(problem, problem.original.text, positions, source);
  return norms.map((own) => (own.length === 0 ? 0 : own.reduce((sum, norm) => sum + norm, 0) / own.length));
}

/** The norms of the loss gradient at the tokens of each word. */
export function* requestNorms(
  { label }: Problem,
  text: EditedText,
  positions: readonly number[],
  source: GradientSource,
): SearchGenerator<number[][]> {
  const [gradients] = yield* request(source, [{ texts: text.texts, label, flips: 0 }]);
  return positions.map((position) => {
    const { field, start, end } = text.slots[position]!;
    const tokens = gradients!.filter((token) => token.field === field && token.start < end && token.end > start);
    return tokens.map(({ norm }) => norm);
  });
}
