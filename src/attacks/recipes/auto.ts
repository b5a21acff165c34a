import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { portfolioSearch } from "../searches/portfolio.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const auto = defineAttack({
  name: "auto",
  summary:
    "local search with restarts, a beam and a genetic algorithm within 10,000 queries; all texts if they are few",
  paper: "a portfolio without parameters",
  options: z.strictObject(goalOptions),
  resources: ["substitutions", "labels"],
  optional: ["context", "gradient"],
  hasBudget: true,
  build: (options, { substitutions, context, gradient, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapFromTable(substitutions)],
    constraints: fitContext(context),
    search: portfolioSearch(gradient ?? null),
  }),
});
