import { z } from "zod";
import { minSentenceSimilarity } from "../constraints/sentence-similarity.js";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { changeCharacters } from "../transformations/change-characters.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

const oneInside = { candidates: "one", innerOnly: true } as const;

export const textbugger = defineAttack({
  name: "textbugger",
  summary: "spaces, typing errors, look-alike characters and neighbors in the most important words",
  paper: "Li et al. 2018, TextBugger (arXiv:1812.05271)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    neighbors: z.int().min(0).default(5).describe("neighbors per word"),
    characters: z.boolean().default(true).describe("change characters, too"),
    similarity: z.number().min(-1).max(1).default(0.8).describe("minimum similarity of sentences"),
  }),
  resources: ["neighbors", "encoder", "labels"],
  differences: "MiniLM instead of the Universal Sentence Encoder; sentences are not ranked before words.",
  build: (options, { neighbors, encoder, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [
      ...(options.characters
        ? [
            changeCharacters("space", oneInside),
            changeCharacters("delete", oneInside),
            changeCharacters("swap", oneInside),
            changeCharacters("homoglyph", { candidates: "all", innerOnly: false }),
          ]
        : []),
      swapNeighbors(neighbors, options.neighbors),
    ],
    constraints: [
      noRepeat,
      keepStopWords({ caseSensitive: options.compat === "textattack" }),
      minSentenceSimilarity(encoder, {
        threshold: options.similarity,
        metric: options.compat === "textattack" ? "angular" : "cosine",
      }),
    ],
    search: rankWordsAndReplace({ by: "delete" }),
  }),
});
