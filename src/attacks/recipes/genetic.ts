import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { allowedByLanguageModel } from "../constraints/language-model.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, scoresOption } from "../goals.js";
import { geneticSearch } from "../searches/genetic.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const genetic = defineAttack({
  name: "genetic",
  summary: "a genetic algorithm over substitutes, in RIFT's setting",
  paper: "Alzantot et al. 2018 (arXiv:1804.07998), as evaluated by Dong et al. 2021",
  options: z.strictObject({
    population: z.int().min(2).default(60).describe("texts per generation"),
    iterations: z.int().min(0).default(40).describe("generations after the first"),
    // Without a default, so that the journals of the stronger version do not mention it.
    words: z
      .enum(["read", "all"])
      .optional()
      .describe("words that may change: those that the model reads, or all of the text (RIFT's code); default: read"),
    ...scoresOption,
  }),
  resources: ["caseInsensitiveSubstitutes"],
  optional: ["context", "lmConstraint"],
  hasBudget: true,
  differences: "Unlike in the released code, the last generation is checked, too.",
  build: (options, { caseInsensitiveSubstitutes, context, lmConstraint }) => ({
    goal: createGoal({ target: null, hardLabel: false, scores: options.scores }, []),
    transformations: [swapFromTable(caseInsensitiveSubstitutes)],
    constraints: [...(lmConstraint ? [allowedByLanguageModel(lmConstraint)] : []), ...fitContext(context)],
    search: geneticSearch({ ...options, mutation: "best" }),
    ...(options.words === "all" && { changesAllWords: true }),
  }),
});
