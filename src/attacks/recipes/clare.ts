import { z } from "zod";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { beamSearch } from "../searches/beam.js";
import { insertMaskedWords, mergeMaskedWords, replaceMaskedWords } from "../transformations/masked-words.js";

export const clare = defineAttack({
  name: "clare",
  summary: "replaces, inserts and merges words as a masked language model expects",
  paper: "Li et al. 2020, Contextualized Perturbation for Textual Adversarial Attack (arXiv:2009.07502)",
  options: z.strictObject({
    ...goalOptions,
    candidates: z.int().min(1).max(50).default(50).describe("candidates per edit"),
    similarity: z.number().min(-1).max(1).default(0.7).describe("minimum cosine similarity of sentences"),
  }),
  resources: ["mlm", "encoder", "labels"],
  differences:
    "MiniLM instead of the Universal Sentence Encoder; candidates are recomputed after each edit, as in TextAttack.",
  build: (options, { mlm, encoder, labels }) => {
    const maxCandidates = options.candidates;
    return {
      goal: createGoal(options, labels),
      transformations: [
        replaceMaskedWords(mlm, { maxCandidates, minProbability: 5e-4 }),
        insertMaskedWords(mlm, { maxCandidates }),
        mergeMaskedWords(mlm, { maxCandidates, minProbability: 5e-3 }),
      ],
      constraints: [
        noRepeat,
        keepStopWords(),
        minSentenceSimilarity(encoder, { threshold: options.similarity, window: 15, skipsShortTexts: true }),
      ],
      search: beamSearch(1),
    };
  },
});
