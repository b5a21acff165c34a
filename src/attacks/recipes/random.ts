import { z } from "zod";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { randomSearch } from "../searches/random.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

export const random = defineAttack({
  name: "random",
  summary: "random substitutes: the baseline that every attack must beat",
  paper: "a baseline",
  options: z.strictObject({
    ...goalOptions,
    samples: z.int().min(1).default(100).describe("random texts to try per example"),
  }),
  resources: ["substitutions", "labels"],
  optional: ["context"],
  hasBudget: true,
  build: (options, { substitutions, context, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapFromTable(substitutions)],
    constraints: fitContext(context),
    search: randomSearch(options.samples),
  }),
});
