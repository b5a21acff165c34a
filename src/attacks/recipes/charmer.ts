import { z } from "zod";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { characterSearch } from "../searches/character-search.js";
import { editCharacters } from "../transformations/edit-character.js";

export const charmer = defineAttack({
  name: "charmer",
  summary: "one character after the other is inserted, replaced or deleted where it matters most",
  paper: "Abad Rocamora et al. 2024, Revisiting Character-level Adversarial Attacks (ICML 2024)",
  options: z.strictObject({
    ...goalOptions,
    edits: z.int().min(1).max(100).default(10).describe("maximum number of edits (Levenshtein distance)"),
    places: z.int().min(1).default(20).describe("places per edit of which every character is tried"),
    alphabet: z
      .string()
      .min(1)
      .default("abcdefghijklmnopqrstuvwxyz0123456789 .,!?'-")
      .describe("characters to insert and to write over others"),
  }),
  resources: ["labels"],
  hasBudget: true,
  differences: "The alphabet is an option; the paper takes the characters of the dataset.",
  build(options, { labels }) {
    const alphabet = [...new Set(options.alphabet)];
    return {
      goal: createGoal(options, labels),
      transformations: [editCharacters(alphabet)],
      constraints: [],
      search: characterSearch({ ...options, alphabet }),
    };
  },
});
