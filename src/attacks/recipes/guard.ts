import { z } from "zod";
import { defineAttack } from "../define-attack.js";
import { benignLabelSchema, findLabel, targeted } from "../goals.js";
import { guardSearch } from "../searches/guard.js";
import { addPadding, appendWords, insertWords } from "../transformations/add-words.js";
import {
  drawLookAlikes,
  listRewritings,
  rewriteText,
  rewriteWord,
  validityClasses,
} from "../transformations/rewrite-text.js";

/** Words of everyday messages. */
const benignWords = (
  "thanks please regards meeting team project attached review schedule tomorrow question update weekend family lunch " +
  "agenda document morning report friends library school weather garden recipe music travel football reading dinner"
).split(" ");

export const guard = defineAttack({
  name: "guard",
  summary:
    "makes texts pass a guard: look-alikes, invisible characters, odd spelling, benign words, padding, encodings",
  paper:
    "Hackett et al. 2025 (arXiv:2504.11168); Lowd and Meek 2005, Good Word Attacks; Nasr et al. 2025 (arXiv:2510.09023)",
  options: z.strictObject({
    benignLabel: benignLabelSchema,
    validity: z
      .enum(validityClasses)
      .default("reads-same")
      .describe("what people can still do with the text: see the same, read the same words, or decode them"),
    maxAddedWords: z.int().min(0).max(500).default(30).describe("maximum number of benign words"),
    placement: z.enum(["append", "insert"]).default("append").describe("benign words at the end, or before any word"),
    paddingWords: z.int().min(0).max(10_000).default(600).describe("benign words before or after the text; 0: none"),
    inside: z.boolean().default(true).describe("put such words inside the text, too"),
    characters: z.boolean().default(true).describe("write words or the complete text in other ways"),
    maxQueries: z.int().min(1).default(1000).describe("texts to try per example without --query-budget"),
  }),
  resources: ["labels"],
  optional: ["lookAlikes"],
  hasBudget: true,
  isChecked: true,
  build: (options, { labels, lookAlikes }) => {
    const { benignLabel, validity, maxAddedWords, placement, paddingWords, inside, characters, maxQueries } = options;
    const places = ["before", "after", ...(inside ? (["inside"] as const) : [])] as const;
    const search = { maxAddedWords, placement, maxQueries };
    const rewritings = characters ? listRewritings(validity, lookAlikes) : [];
    return {
      goal: targeted(findLabel(benignLabel, labels)),
      transformations: [
        ...rewritings.map(rewriteText),
        ...(paddingWords > 0 ? places.map((place) => addPadding(benignWords, paddingWords, place)) : []),
        ...rewritings.filter(({ isWhole }) => !isWhole).map(rewriteWord),
        ...(characters && lookAlikes ? [drawLookAlikes(lookAlikes)] : []),
        placement === "append" ? appendWords(benignWords) : insertWords(benignWords),
      ],
      constraints: [],
      search: guardSearch(search),
      createWhiteBoxSearch: (gradient) => guardSearch({ ...search, gradient }),
    };
  },
});
