import { z } from "zod";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { particleSwarmSearch } from "../searches/particle-swarm.js";
import { swapSynonyms } from "../transformations/swap-synonyms.js";

export const pso = defineAttack({
  name: "pso",
  summary: "particle swarm optimization over synonyms of the same part of speech",
  paper: "Zang et al. 2020, Word-level Textual Adversarial Attacking (acl-main.540)",
  options: z.strictObject({
    ...goalOptions,
    population: z.int().min(2).default(60).describe("number of particles"),
    iterations: z.int().min(1).default(20).describe("number of moves"),
  }),
  resources: ["wordnet", "labels"],
  hasBudget: true,
  differences: "WordNet instead of HowNet's sememes, which are not freely available.",
  build: (options, { wordnet, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [swapSynonyms(wordnet, { samePartOfSpeech: true })],
    constraints: [noRepeat, keepStopWords()],
    search: particleSwarmSearch(options),
  }),
});
