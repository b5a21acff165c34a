import { z } from "zod";
import { keepMostLikely } from "../constraints/likelihood.js";
import { keepStopWords, maxWordsChanged, minWordSimilarity, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { geneticSearch } from "../searches/genetic.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

export const alzantot = defineAttack({
  name: "alzantot",
  summary: "genetic algorithm over the neighbors of words, in at most 20% of a text",
  paper: "Alzantot et al. 2018, Generating Natural Language Adversarial Examples (arXiv:1804.07998)",
  options: z.strictObject({
    ...goalOptions,
    neighbors: z.int().min(1).default(8).describe("neighbors per word"),
    population: z.int().min(2).default(60).describe("texts per generation"),
    iterations: z.int().min(0).default(20).describe("generations after the first"),
    likeliest: z.int().min(1).default(4).describe("neighbors per word that the masked language model keeps"),
    maxModificationRate: z.number().gt(0).max(1).default(0.2).describe("maximum fraction of changed words"),
  }),
  resources: ["neighbors", "labels"],
  hasBudget: true,
  optional: ["mlm"],
  differences:
    "A masked language model limits the neighbors (--masked-lm), or none does. In TextAttack, it has no effect.",
  build: (options, { neighbors, labels, mlm }) => ({
    goal: createGoal(options, labels),
    transformations: [swapNeighbors(neighbors, options.neighbors)],
    constraints: [
      noRepeat,
      keepStopWords(),
      maxWordsChanged({ fraction: options.maxModificationRate }),
      // A squared distance of 0.5 between vectors of length 1.
      minWordSimilarity(neighbors, 0.75),
      ...(mlm ? [keepMostLikely(mlm, options.likeliest)] : []),
    ],
    search: geneticSearch(options),
  }),
});
