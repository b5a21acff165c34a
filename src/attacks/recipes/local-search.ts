import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { localSearch as searchLocally } from "../searches/local-search.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const localSearch = defineAttack({
  name: "local-search",
  summary: "the best change of any word, repeated until no change of one word is better",
  paper: "Liu et al. 2021, Efficient Combinatorial Optimization for Word-level Attacks (arXiv:2109.02229)",
  options: z.strictObject(goalOptions),
  resources: ["substitutions", "labels"],
  optional: ["context"],
  differences: "Any improvement counts; the released code wants a minimum.",
  build: (options, { substitutions, context, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapFromTable(substitutions)],
    constraints: fitContext(context),
    search: searchLocally(),
  }),
});
