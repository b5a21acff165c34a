import { z } from "zod";
import { maxEditDistance } from "../constraints/edit-distance.js";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { type CharacterOperator, changeCharacters } from "../transformations/change-characters.js";

const operators: readonly CharacterOperator[] = ["swap", "substitute", "delete", "insert"];

export const deepwordbug = defineAttack({
  name: "deepwordbug",
  summary: "typing errors in the most important words",
  paper: "Gao et al. 2018, Black-box Generation of Adversarial Text Sequences (arXiv:1801.04354)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    maxEditDistance: z.int().min(1).default(30).describe("maximum number of changed characters per text"),
  }),
  resources: ["labels"],
  differences: "Words are ranked by replacing them, as in TextAttack, not by the paper's temporal scores.",
  build: (options, { labels }) => ({
    goal: createGoal(options, labels),
    transformations: operators.map((operator) => changeCharacters(operator, { candidates: "one", innerOnly: false })),
    constraints: [
      noRepeat,
      keepStopWords({ caseSensitive: options.compat === "textattack" }),
      maxEditDistance(options.maxEditDistance),
    ],
    search: rankWordsAndReplace({ by: "unk", unkWord: options.compat === "textattack" ? "[UNK]" : undefined }),
  }),
});
