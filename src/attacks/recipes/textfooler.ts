import { z } from "zod";
import { orNull } from "../../base/validate.js";
import { textFoolerStopWords } from "../../text/stop-words.js";
import { samePartOfSpeech } from "../constraints/part-of-speech.js";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, minWordSimilarity, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

/**
 * Angular similarities. The published one is for the Universal Sentence Encoder. For MiniLM, 0.88
 * (a cosine of 0.93) separates neighbors from random words best (docs/guide/attacks.md).
 */
const thresholds = { published: 0.840845057, calibrated: 0.88 };

export const textfooler = defineAttack({
  name: "textfooler",
  summary: "neighbors of the most important words, with the same part of speech and a similar sentence",
  paper: "Jin et al. 2019, Is BERT Really Robust? (arXiv:1907.11932)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    neighbors: z.int().min(1).default(50).describe("neighbors per word"),
    wordSimilarity: z.number().min(-1).max(1).default(0.5).describe("minimum cosine of word vectors (with --vectors)"),
    similarity: orNull(z.number().min(-1).max(1), "0.88, or 0.840845057 with compat=textattack").describe(
      "minimum angular similarity of sentences",
    ),
  }),
  resources: ["neighbors", "encoder", "labels"],
  differences: "MiniLM instead of the Universal Sentence Encoder, with a threshold that is calibrated for it.",
  build: (options, { neighbors, encoder, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapNeighbors(neighbors, options.neighbors)],
    constraints: [
      noRepeat,
      keepStopWords({ words: textFoolerStopWords, caseSensitive: options.compat === "textattack" }),
      minWordSimilarity(neighbors, options.wordSimilarity),
      samePartOfSpeech({ allowsNounVerb: true }),
      minSentenceSimilarity(encoder, {
        threshold: options.similarity ?? thresholds[options.compat === "textattack" ? "published" : "calibrated"],
        metric: "angular",
        window: 15,
        reference: "current",
        skipsShortTexts: true,
      }),
    ],
    search: rankWordsAndReplace({ by: "delete" }),
  }),
});
