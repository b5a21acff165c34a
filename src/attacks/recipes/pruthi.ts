import { z } from "zod";
import { keepStopWords, maxWordsChanged, minWordLength, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { compatOption, createGoal, goalOptions } from "../goals.js";
import { beamSearch } from "../searches/beam.js";
import { type CharacterOperator, changeCharacters } from "../transformations/change-characters.js";

const operators: readonly CharacterOperator[] = ["swap", "delete", "insert", "keyboard"];

export const pruthi = defineAttack({
  name: "pruthi",
  summary: "the worst of all typing errors inside one word",
  paper: "Pruthi et al. 2019, Combating Adversarial Misspellings (arXiv:1905.11268)",
  options: z.strictObject({
    ...goalOptions,
    ...compatOption,
    maxWords: z.int().min(1).default(1).describe("maximum number of changed words"),
  }),
  resources: ["labels"],
  build: (options, { labels }) => ({
    goal: createGoal(options, labels),
    transformations: operators.map((operator) => changeCharacters(operator, { candidates: "all", innerOnly: true })),
    constraints: [
      minWordLength(4),
      keepStopWords({ caseSensitive: options.compat === "textattack" }),
      maxWordsChanged({ count: options.maxWords }),
      noRepeat,
    ],
    search: beamSearch(1),
  }),
});
