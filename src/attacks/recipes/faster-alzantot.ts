import { z } from "zod";
import { maxLikelihoodDrop } from "../constraints/likelihood.js";
import { keepStopWords, maxWordsChanged, minWordSimilarity, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { geneticSearch } from "../searches/genetic.js";
import { swapNeighbors } from "../transformations/swap-neighbors.js";

export const fasterAlzantot = defineAttack({
  name: "faster-alzantot",
  summary: "the genetic algorithm with more generations and a fixed word similarity",
  paper: "Jia et al. 2019, Certified Robustness to Adversarial Word Substitutions (arXiv:1909.00986)",
  options: z.strictObject({
    ...goalOptions,
    neighbors: z.int().min(1).default(8).describe("neighbors per word"),
    population: z.int().min(2).default(60).describe("texts per generation"),
    iterations: z.int().min(0).default(40).describe("generations after the first"),
    likelihoodDrop: z.number().min(0).default(5).describe("maximum drop of a word's log-likelihood"),
    maxModificationRate: z.number().gt(0).max(1).default(0.2).describe("maximum fraction of changed words"),
  }),
  resources: ["neighbors", "labels"],
  hasBudget: true,
  optional: ["mlm"],
  differences: "A masked language model limits the neighbors (--masked-lm), or none does.",
  build: (options, { neighbors, labels, mlm }) => ({
    goal: createGoal(options, labels),
    transformations: [swapNeighbors(neighbors, options.neighbors)],
    constraints: [
      noRepeat,
      keepStopWords(),
      maxWordsChanged({ fraction: options.maxModificationRate }),
      // A squared distance of 0.5 between vectors of length 1.
      minWordSimilarity(neighbors, 0.75),
      ...(mlm ? [maxLikelihoodDrop(mlm, options.likelihoodDrop)] : []),
    ],
    search: geneticSearch(options),
  }),
});
