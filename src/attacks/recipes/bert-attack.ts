import { z } from "zod";
import { orNull } from "../../base/validate.js";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, maxWordsChanged, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { replacePredictedInOrder, replacePredictedWords } from "../transformations/masked-words.js";

export const bertAttack = defineAttack({
  name: "bert-attack",
  summary: "words that a masked language model predicts in place of the most important words",
  paper: "Li et al. 2020, BERT-ATTACK (arXiv:2004.09984)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    candidates: orNull(z.int().min(1).max(50), "48, or 8 with compat=textattack").describe("candidates per word"),
    maxModificationRate: z.number().gt(0).max(1).default(0.4).describe("maximum fraction of changed words"),
    similarity: z.number().min(-1).max(1).default(0.2).describe("minimum cosine similarity of texts"),
  }),
  resources: ["mlm", "encoder", "labels"],
  differences: "MiniLM instead of the Universal Sentence Encoder; no filter of antonyms on sentiment tasks.",
  build: (options, { mlm, encoder, labels }) => {
    const isTextAttack = options.compat === "textattack";
    const replacePredicted = isTextAttack ? replacePredictedInOrder : replacePredictedWords;
    return {
      goal: createGoal(options, labels),
      transformations: [replacePredicted(mlm, options.candidates ?? (isTextAttack ? 8 : 48))],
      constraints: [
        noRepeat,
        keepStopWords({ caseSensitive: isTextAttack }),
        maxWordsChanged({ fraction: options.maxModificationRate }),
        minSentenceSimilarity(encoder, { threshold: options.similarity }),
      ],
      search: rankWordsAndReplace({ by: "unk", unkWord: isTextAttack ? "[UNK]" : undefined }),
    };
  },
});
