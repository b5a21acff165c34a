import { z } from "zod";
import { keepStopWords, maxWordsChanged, minWordSimilarity } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { geneticSearch } from "../searches/genetic.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

export const iga = defineAttack({
  name: "iga",
  summary: "genetic algorithm that starts with one change per word and may change a word again",
  paper: "Wang et al. 2019, Natural Language Adversarial Attacks and Defenses in Word Level (arXiv:1909.06723)",
  options: z.strictObject({
    ...goalOptions,
    neighbors: z.int().min(1).default(50).describe("neighbors per word"),
    population: z.int().min(2).default(60).describe("texts per generation"),
    iterations: z.int().min(0).default(20).describe("generations after the first"),
    maxReplacements: z.int().min(1).default(5).describe("how often a word may change"),
    maxModificationRate: z.number().gt(0).max(1).default(0.2).describe("maximum fraction of changed words"),
  }),
  resources: ["neighbors", "labels"],
  hasBudget: true,
  build: (options, { neighbors, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapNeighbors(neighbors, options.neighbors)],
    constraints: [
      keepStopWords(),
      maxWordsChanged({ fraction: options.maxModificationRate }),
      // A squared distance of 0.5 between vectors of length 1.
      minWordSimilarity(neighbors, 0.75),
    ],
    search: geneticSearch({
      ...options,
      crossover: "single-point",
      start: "each-word",
    }),
  }),
});
