import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { exhaustiveSearch } from "../searches/exhaustive.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const exhaustive = defineAttack({
  name: "exhaustive",
  summary: "every combination of substitutes, exact for short texts",
  paper: "a baseline",
  options: z.strictObject({
    ...goalOptions,
    maxCandidates: z
      .int()
      .min(1)
      .default(20_000)
      .describe("combinations to try per example; for a larger space, accuracy is an upper bound"),
  }),
  // Each result says whether maxCandidates was large enough, so late successes say nothing more.
  hasBudget: false,
  resources: ["substitutions", "labels"],
  optional: ["context"],
  build: (options, { substitutions, context, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapFromTable(substitutions)],
    constraints: fitContext(context),
    search: exhaustiveSearch(options.maxCandidates),
  }),
});
