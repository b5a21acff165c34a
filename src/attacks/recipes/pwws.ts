import { z } from "zod";
import { orNull } from "../../base/validate.js";
import { fitContext } from "../constraints/context.js";
import { keepStopWords, noRepeat } from "../constraints/words.js";
import { defineAttack } from "../define-attack.js";
import { createGoal, goalOptions } from "../goals.js";
import { weightedSaliencySearch } from "../searches/weighted-saliency.js";
import { showUnknown } from "../searches/word-importance-ranking.js";
import { swapFromTable } from "../transformations/swap-from-table.js";
import { swapSynonyms } from "../transformations/swap-synonyms.js";

export const pwws = defineAttack({
  name: "pwws",
  summary: "the best substitute of each word, in the order of effect times saliency",
  paper: "Ren et al. 2019, Probability Weighted Word Saliency (P19-1103), as evaluated in RIFT",
  options: z.strictObject({
    ...goalOptions,
    adaptive: z
      .boolean()
      .default(false)
      .describe("choose each substitute on the current text (TextAttack), not on the original text (PWWS paper, RIFT)"),
    saliencyWord: orNull(z.string().min(1), "the unknown token").describe(
      'word written over a word to measure its saliency ("NULL" in RIFT\'s code)',
    ),
    ties: z
      .enum(["first", "last"])
      .optional()
      .describe("which of several equally good substitutes is chosen (last in RIFT's code); default: first"),
    // Without a default, so that the journals of the paper's version do not mention it.
    compat: z
      .enum(["textattack"])
      .optional()
      .describe("follow TextAttack 0.3.11: WordNet synonyms of any part of speech, chosen on the current text"),
  }),
  resources: ({ compat }) => (compat === "textattack" ? ["wordnet", "labels"] : ["substitutions", "labels"]),
  optional: ["context"],
  build(options, { substitutions, context, wordnet, labels }) {
    const goal = createGoal(options, labels);
    if (options.compat === "textattack")
      return {
        goal,
        transformations: [swapSynonyms(wordnet)],
        constraints: [noRepeat, keepStopWords({ caseSensitive: true })],
        search: weightedSaliencySearch({ chooseOn: "current", shown: { word: "[UNK]" }, weight: "value" }),
      };
    return {
      goal,
      transformations: [swapFromTable(substitutions)],
      constraints: fitContext(context),
      search: weightedSaliencySearch({
        chooseOn: options.adaptive ? "current" : "original",
        shown: showUnknown(options.saliencyWord),
        ...(options.ties && { ties: options.ties }),
      }),
    };
  },
});
