import { z } from "zod";
import { noRepeat } from "../constraints/repeat.js";
import { keepStopWords } from "../constraints/stop-words.js";
import { untargeted } from "../goals/untargeted.js";
import { defineRecipe } from "../recipe.js";
import {
  type AttackDefinition,
  type Candidate,
  type CandidateGenerator,
  createUnchangedCandidate,
  firstMisclassified,
  getGoldProbability,
  isMisclassified,
  modifiablePositions,
  type SearchProblem,
  withReplacement,
} from "../search.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { swapSynonyms } from "../transformations/swap-synonyms.js";

const options = z.strictObject({
  adaptive: z
    .boolean()
    .default(false)
    .describe("choose each substitute on the current text (TextAttack), not on the original text (PWWS paper, RIFT)"),
  saliencyWord: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('word written over a word to measure its saliency ("NULL" in RIFT\'s code); null: the unknown token'),
  // Without a default, so that the journals of the paper's version do not mention it.
  compat: z
    .enum(["textattack"])
    .optional()
    .describe("follow TextAttack 0.3.11: WordNet synonyms of any part of speech, chosen on the current text"),
});

type Options = z.output<typeof options>;

/**
 * Probability-weighted word saliency (Ren et al. 2019), as evaluated in RIFT. Each word's best
 * substitute on the original text, weighted by the word's saliency, determines the order.
 * Substitutions accumulate in that order until the label flips.
 */
export const pwws: AttackDefinition<Options> = {
  name: "pwws",
  options,
  hasBudget: false,
  search: (settings) => (problem) => searchPwws(problem, settings),
};

/** PWWS as TextAttack has it, for `compat=textattack`. */
export const textAttackPwws = defineRecipe({
  name: "pwws",
  summary: "the best synonym of each word, in the order of effect times saliency",
  paper: "Ren et al. 2019, Probability Weighted Word Saliency (P19-1103), as in TextAttack",
  options,
  resources: ["wordnet"],
  build: (_, { wordnet }) => ({
    goal: untargeted,
    transformations: [swapSynonyms(wordnet)],
    constraints: [noRepeat, keepStopWords({ caseSensitive: true })],
    search: rankWordsAndReplace({ by: "weighted-saliency", unkWord: "[UNK]" }),
  }),
});

function* searchPwws(problem: SearchProblem, { adaptive, saliencyWord }: Options): CandidateGenerator {
  const positions = modifiablePositions(problem);
  if (positions.length === 0 || problem.maxChanged < 1) return createUnchangedCandidate(problem);
  const { replacementIndices: unchanged } = createUnchangedCandidate(problem);
  const substitutions = positions.flatMap((position) =>
    problem.replacements[position]!.slice(1).map((_, i) => ({ position, index: i + 1 })),
  );
  // Fixed words are not masked. Their saliency only enters the softmax's common denominator,
  // which does not affect the order.
  const scores = yield [
    ...positions.map((position) => ({
      ...{ replacementIndices: unchanged, mask: position },
      ...(saliencyWord !== null && { maskWord: saliencyWord }),
    })),
    ...substitutions.map(({ position, index }) => ({
      replacementIndices: withReplacement(unchanged, position, index),
      isProbe: true,
    })),
  ];
  const before = getGoldProbability(problem.originalScore, problem);
  const saliency = softmax(positions.map((_, i) => before - getGoldProbability(scores[i]!, problem)));
  const best = new Map<number, { index: number; drop: number }>();
  substitutions.forEach(({ position, index }, i) => {
    const drop = before - getGoldProbability(scores[positions.length + i]!, problem);
    if (drop > (best.get(position)?.drop ?? Number.NEGATIVE_INFINITY)) best.set(position, { index, drop });
  });
  const order = positions
    .map((position, i) => {
      const { index, drop } = best.get(position)!;
      return { position, index, score: drop * saliency[i]! };
    })
    .sort((a, b) => b.score - a.score || a.position - b.position);
  if (adaptive) {
    const sorted = order.map(({ position }) => position);
    return yield* searchAdaptively(problem, sorted);
  }
  const prefixes: Candidate[] = [];
  let replacementIndices = unchanged;
  for (const { position, index } of order.slice(0, problem.maxChanged)) {
    replacementIndices = withReplacement(replacementIndices, position, index);
    prefixes.push({ replacementIndices });
  }
  return (yield* firstMisclassified(prefixes, problem)) ?? prefixes.at(-1)!;
}

/**
 * Visits the positions in order. Each word takes the substitute that lowers the gold label's
 * probability most in the current text, or stays if none lowers it.
 */
function* searchAdaptively(problem: SearchProblem, positions: readonly number[]): CandidateGenerator {
  let current: Candidate = createUnchangedCandidate(problem);
  let lowest = getGoldProbability(problem.originalScore, problem);
  let changed = 0;
  for (const position of positions) {
    if (changed === problem.maxChanged) break;
    const trials = problem.replacements[position]!.slice(1).map((_, i) => ({
      replacementIndices: withReplacement(current.replacementIndices, position, i + 1),
      isProbe: true,
    }));
    const scores = yield trials;
    const golds = scores.map((score) => getGoldProbability(score, problem));
    const best = golds.indexOf(Math.min(...golds));
    if (golds[best]! >= lowest) continue;
    current = { replacementIndices: trials[best]!.replacementIndices };
    lowest = golds[best]!;
    changed++;
    const [confirmed] = yield [{ ...current, isConfirmation: true }];
    if (isMisclassified(confirmed!, problem.label)) break;
  }
  return current;
}

function softmax(values: readonly number[]): number[] {
  const exponentials = values.map(Math.exp);
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}
