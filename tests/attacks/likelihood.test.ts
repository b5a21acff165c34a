import { expect, test } from "vitest";
import { keepMostLikely, maxLikelihoodDrop } from "../../src/attacks/constraints/likelihood.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import type { Constraint } from "../../src/attacks/protocol.js";
import type { MaskedLanguageModel, WordQuery } from "../../src/attacks/resources.js";

const likelihoods: Record<string, number> = { film: -2, movie: -1, picture: -4, pellicle: -9, good: -3, fine: -5 };

const model = {
  name: "scripted",
  likelihood: {
    name: "likelihood",
    compute: async (queries: readonly WordQuery[]) =>
      queries.map(({ text, start, end }) => likelihoods[text.slice(start, end)]!),
  },
} as unknown as MaskedLanguageModel;

async function filter(constraint: Constraint, candidates: readonly EditedText[]): Promise<string[]> {
  const generator = constraint.filter!(candidates, candidates[0]!.original);
  let step = generator.next([]);
  while (!step.done) step = generator.next(await model.likelihood.compute(step.value.inputs as WordQuery[]));
  return step.value.map(({ texts }) => texts[0]!);
}

const original = EditedText.create(["a good film"]);
const candidates = [
  ...["movie", "picture", "pellicle"].map((word) => original.apply({ kind: "replace", position: 2, word })),
  original.apply({ kind: "replace", position: 1, word: "fine" }),
];

test("a new word is not much less likely than the original word", async () => {
  expect(await filter(maxLikelihoodDrop(model, 2), candidates)).toEqual([
    "a good movie",
    "a good picture",
    "a fine film",
  ]);
  expect(await filter(maxLikelihoodDrop(model, 0), candidates)).toEqual(["a good movie"]);
});

test("the most likely words of each place stay, and so do other edits", async () => {
  const deleted = original.apply({ kind: "delete", position: 0 });
  const kept = await filter(keepMostLikely(model, 1), [...candidates, deleted]);
  expect(kept).toEqual(["a good movie", "a fine film", "good film"]);
});
