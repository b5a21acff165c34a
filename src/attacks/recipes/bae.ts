import { z } from "zod";
import { samePartOfSpeech } from "../constraints/part-of-speech.js";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { insertMaskedWords, replaceMaskedWords } from "../transformations/masked-words.js";

export const bae = defineAttack({
  name: "bae",
  summary: "words that a masked language model expects, in place of important words or before them",
  paper: "Garg and Ramakrishnan 2020, BAE: BERT-based Adversarial Examples (arXiv:2004.01970)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    variant: z
      .enum(["R", "I", "R/I", "R+I"])
      .default("R")
      .describe("replace, insert, replace or insert, or first replace and then insert"),
    candidates: z.int().min(1).max(50).default(50).describe("candidates per word"),
    similarity: z.number().min(-1).max(1).default(0.936338023).describe("minimum cosine similarity of sentences"),
  }),
  resources: ["mlm", "encoder", "labels"],
  differences: "MiniLM instead of the Universal Sentence Encoder; any masked language model instead of BERT-base.",
  build: (options, { mlm, encoder, labels }) => {
    const { variant, compat } = options;
    const isTextAttack = compat === "textattack";
    const masked = { maxCandidates: options.candidates, keepsPieces: isTextAttack };
    return {
      goal: createGoal(options, labels),
      transformations: [
        ...(variant === "I" ? [] : [replaceMaskedWords(mlm, masked)]),
        ...(variant === "R" ? [] : [insertMaskedWords(mlm, masked)]),
      ],
      constraints: [
        noRepeat,
        keepStopWords({ caseSensitive: isTextAttack }),
        samePartOfSpeech({ allowsNounVerb: true }),
        minSentenceSimilarity(encoder, {
          threshold: options.similarity,
          window: 15,
          reference: isTextAttack ? "original" : "current",
          skipsShortTexts: true,
        }),
      ],
      search: rankWordsAndReplace({ by: "delete" }, variant === "R+I" ? ["swap", "insert"] : undefined),
    };
  },
});
