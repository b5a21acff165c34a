import { z } from "zod";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { differentialEvolutionSearch } from "../searches/differential-evolution.js";
import { changeBadCharacter, encodeBadCharacters } from "../transformations/bad-characters.js";

export const badCharacters = defineAttack({
  name: "bad-characters",
  summary: "characters that people cannot see: look-alikes, invisible ones, deletions, reorderings",
  paper: "Boucher et al. 2021, Bad Characters (arXiv:2106.09898)",
  options: z.strictObject({
    ...goalOptions,
    kind: z
      .enum(["homoglyphs", "invisible", "deletions", "reorderings"])
      .default("homoglyphs")
      .describe("what changes"),
    changes: z.int().min(1).max(50).default(1).describe("number of changes per text"),
    population: z.int().min(1).default(32).describe("population per number of the vector"),
    iterations: z.int().min(0).default(10).describe("generations of differential evolution"),
  }),
  resources: ["labels"],
  hasBudget: true,
  differences: "Only characters of words change, not spaces and punctuation; the search stops at the first success.",
  build: (options, { labels }) => {
    const encoding = encodeBadCharacters(options.kind, options.changes);
    return {
      goal: createGoal(options, labels),
      transformations: [changeBadCharacter(encoding, options.kind)],
      constraints: [],
      search: differentialEvolutionSearch(encoding, options),
    };
  },
});
