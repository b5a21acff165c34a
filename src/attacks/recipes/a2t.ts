import { z } from "zod";
import { samePartOfSpeech } from "../constraints/part-of-speech.js";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, maxModificationRate, minWordSimilarity, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

export const a2t = defineAttack({
  name: "a2t",
  summary: "neighbors of the words with the largest gradients; cheap enough for adversarial training",
  paper: "Yoo and Qi 2021, Towards Improving Adversarial Training of NLP Models (arXiv:2109.00544)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    neighbors: z.int().min(1).default(20).describe("neighbors per word"),
    maxModificationRate: z.number().gt(0).max(1).default(0.1).describe("maximum fraction of changed words"),
    minWords: z.int().min(1).default(4).describe("number of words that may always change"),
    wordSimilarity: z.number().min(-1).max(1).default(0.8).describe("minimum cosine of word vectors (with --vectors)"),
    similarity: z.number().min(-1).max(1).default(0.9).describe("minimum cosine similarity of sentences"),
  }),
  resources: ["neighbors", "encoder", "gradient", "labels"],
  differences: "Gradients are computed without dropout; TextAttack leaves dropout on.",
  build: (options, { neighbors, encoder, gradient, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapNeighbors(neighbors, options.neighbors)],
    constraints: [
      noRepeat,
      keepStopWords({ caseSensitive: options.compat === "textattack" }),
      maxModificationRate(options.maxModificationRate, options.minWords),
      minWordSimilarity(neighbors, options.wordSimilarity),
      samePartOfSpeech({ allowsNounVerb: false }),
      minSentenceSimilarity(encoder, { threshold: options.similarity }),
    ],
    search: rankWordsAndReplace({ by: "gradient", source: gradient }),
  }),
});
