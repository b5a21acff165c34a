import { z } from "zod";
import { defineAttack } from "../define-attack.js";
import { findLabel } from "../goals/create-goal.js";
import { targeted } from "../goals/targeted.js";
import { evasionSearch } from "../searches/evasion.js";
import { appendWords, insertWords, prependPadding } from "../transformations/add-words.js";
import { type Rewriting, rewriteText, rewriteWord, rewritings } from "../transformations/rewrite-text.js";

/** Words of everyday messages. */
const benignWords = (
  "thanks please regards meeting team project attached review schedule tomorrow question update weekend family lunch " +
  "agenda document morning report friends library school weather garden recipe music travel football reading dinner"
).split(" ");

export const evasion = defineAttack({
  name: "evasion",
  summary: "makes texts pass a guard classifier: spacing, look-alikes, invisible characters, benign words, padding",
  paper: "Hackett et al. 2025 (arXiv:2504.11168); Lowd and Meek 2005, Good Word Attacks",
  options: z.strictObject({
    benignLabel: z
      .union([z.string(), z.int().min(0)], { error: "expected a class by name or index, such as benignLabel=ham" })
      .describe("class of the texts that the guard accepts, by name or index"),
    maxAddedWords: z.int().min(0).max(500).default(30).describe("maximum number of benign words"),
    placement: z.enum(["append", "insert"]).default("append").describe("benign words at the end, or before any word"),
    paddingWords: z.int().min(0).max(10_000).default(600).describe("benign words before the text; 0: none"),
    characters: z.boolean().default(true).describe("rewrite words with spaces, look-alikes and invisible characters"),
  }),
  resources: ["labels"],
  exampleOptions: { benignLabel: 0 },
  build: ({ benignLabel, maxAddedWords, placement, paddingWords, characters }, { labels }) => {
    const all = characters ? (Object.keys(rewritings) as Rewriting[]) : [];
    return {
      goal: targeted(findLabel(benignLabel, labels)),
      transformations: [
        ...all.map(rewriteText),
        ...(paddingWords > 0 ? [prependPadding(benignWords, paddingWords)] : []),
        ...all.map(rewriteWord),
        placement === "append" ? appendWords(benignWords) : insertWords(benignWords),
      ],
      constraints: [],
      search: evasionSearch({ maxAddedWords, placement }),
    };
  },
});
