import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { rankWordsAndReplace } from "../searches/word-importance-ranking.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const greedy = defineAttack({
  name: "greedy",
  summary: "one pass from left to right, each word takes its best substitute",
  paper: "a baseline",
  options: z.strictObject(goalOptions),
  resources: ["substitutions", "labels"],
  optional: ["context"],
  build: (options, { substitutions, context, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapFromTable(substitutions)],
    constraints: fitContext(context),
    search: rankWordsAndReplace({ by: "order" }),
  }),
});
