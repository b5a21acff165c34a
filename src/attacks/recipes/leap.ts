import { z } from "zod";
import { keepStopWords, maxModificationRate } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { particleSwarmSearch } from "../searches/particle-swarm.js";
import { swapSynonyms } from "../transformations/swap-synonyms.js";

export const leap = defineAttack({
  name: "leap",
  summary: "particle swarm optimization with Lévy flights over WordNet synonyms",
  paper: "Xiao et al. 2023, LEAP (arXiv:2308.11284)",
  options: z.strictObject({
    ...goalOptions,
    population: z.int().min(2).default(60).describe("number of particles"),
    iterations: z.int().min(1).default(20).describe("number of moves"),
    maxModificationRate: z.number().gt(0).max(1).default(0.16).describe("maximum fraction of changed words"),
  }),
  resources: ["wordnet", "labels"],
  hasBudget: true,
  build: (options, { wordnet, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapSynonyms(wordnet)],
    constraints: [maxModificationRate(options.maxModificationRate), keepStopWords()],
    search: particleSwarmSearch({ ...options, isLeap: true }),
  }),
});
