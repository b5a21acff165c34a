import { z } from "zod";
import { samePartOfSpeech } from "../constraints/part-of-speech.js";
import { keepStopWords, maxWordsChanged, minWordSimilarity, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { beamSearch } from "../searches/beam.js";
import { flipByGradient } from "../transformations/flip-by-gradient.js";

export const hotflip = defineAttack({
  name: "hotflip",
  summary: "the words of the vocabulary that increase the loss most by a first-order estimate",
  paper: "Ebrahimi et al. 2017, HotFlip (arXiv:1712.06751)",
  options: z.strictObject({
    ...goalOptions,
    flips: z.int().min(1).max(100).default(10).describe("flips per word before constraints"),
    beamWidth: z.int().min(1).default(10).describe("texts that are kept after each flip"),
    wordSimilarity: z.number().min(-1).max(1).default(0.8).describe("minimum cosine of word vectors (with --vectors)"),
    maxWords: z.int().min(1).default(2).describe("maximum number of changed words"),
  }),
  resources: ["gradient", "neighbors", "labels"],
  differences: "The best flips of every word are tried; TextAttack tries one flip of the complete text.",
  build: (options, { gradient, neighbors, labels }) => ({
    goal: createGoal(options, labels),
    transformations: [flipByGradient(gradient, options.flips)],
    constraints: [
      noRepeat,
      keepStopWords(),
      maxWordsChanged({ count: options.maxWords }),
      minWordSimilarity(neighbors, options.wordSimilarity),
      samePartOfSpeech({ allowsNounVerb: true }),
    ],
    search: beamSearch(options.beamWidth),
  }),
});
