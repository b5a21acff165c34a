import { expect, test } from "vitest";
import { createRequestConstraints } from "../../src/actions/attack/request-constraints.js";
import { allowedByLanguageModel } from "../../src/attacks/constraints/language-model.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import type { Constraint } from "../../src/attacks/protocol.js";
import { computeTogether } from "../../src/attacks/requests.js";
import { expandText } from "../../src/attacks/run-recipe.js";
import { deleteWord } from "../../src/attacks/transformations/delete-word.js";
import { swapFromTable } from "../../src/attacks/transformations/swap-from-table.js";
import { Rng } from "../../src/base/rng.js";
import type { LmConstraint } from "../../src/text/lm-constraint.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";

const table = parseSubstitutionTable(
  { dog: ["hound", "canine"], runs: ["dashes", "the"], the: ["thee"], fast: ["quickly", "quick"] },
  "table",
);
const unconstrained = {
  ...{ maxModificationRate: 1, protectStopWords: false, matchPartOfSpeech: false, maxLikelihoodDrop: null },
  ...{ protectedText: [], protect: [] },
};

async function expand(
  texts: readonly string[],
  constraints: readonly Constraint[],
  transformation = swapFromTable(table),
): Promise<string[]> {
  const text = EditedText.create(texts);
  const positions = [...text.slots.keys()];
  const parts = { transformations: [transformation], constraints };
  const [found] = await computeTogether([expandText(parts, text, positions, new Rng(0))]);
  return found!.map((candidate) => candidate.texts.join("|"));
}

test("only words of modifiable fields change, and the spacing stays", async () => {
  const constraints = createRequestConstraints(unconstrained, [1], {});
  expect(await expand(["The dog sleeps.", "A dog  runs (fast)!"], constraints)).toEqual([
    "The dog sleeps.|A hound  runs (fast)!",
    "The dog sleeps.|A canine  runs (fast)!",
    "The dog sleeps.|A dog  dashes (fast)!",
    "The dog sleeps.|A dog  the (fast)!",
    "The dog sleeps.|A dog  runs (quickly)!",
    "The dog sleeps.|A dog  runs (quick)!",
  ]);
});

test("stop words are neither changed nor deleted nor inserted", async () => {
  const constraints = createRequestConstraints({ ...unconstrained, protectStopWords: true }, [0], {});
  expect(await expand(["The dog runs"], constraints)).toEqual(["The hound runs", "The canine runs", "The dog dashes"]);
  expect(await expand(["The dog runs"], constraints, deleteWord)).toEqual(["The dog", "The runs"]);
});

test("a language-model constraint decides, in any letter case", async () => {
  const known: LmConstraint = {
    name: "lm",
    hash: "h",
    size: 1,
    covers: (text) => text.startsWith("A Dog"),
    getAllowedSubstitutes: (text, words) =>
      text.startsWith("A Dog") ? words.map(({ start }) => (start === 2 ? ["canine"] : [])) : undefined,
  };
  expect(await expand(["A Dog runs"], [allowedByLanguageModel(known)])).toEqual(["A Canine runs"]);
  await expect(expand(["Dogs run fast"], [allowedByLanguageModel(known)])).rejects.toThrow("does not contain");
});
