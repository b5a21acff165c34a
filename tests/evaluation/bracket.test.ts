import { expect, test } from "vitest";
import { computeBracket, countMinChanges } from "../../src/evaluation/bracket.js";

const texts = [
  { provenUpTo: -1, minChanges: 0 }, // misclassified
  { provenUpTo: 0, minChanges: 1 }, // fooled by one
  { provenUpTo: 2, minChanges: null }, // proven
  { provenUpTo: 1, minChanges: null }, // open at two
  { provenUpTo: 0, minChanges: 2 }, // one is open, two fool it
];

test("robust accuracy is between what is proven and what is not broken", () => {
  expect(computeBracket(texts, 2).map(({ proven, unbroken }) => [proven, unbroken])).toEqual([
    [4 / 5, 4 / 5],
    [2 / 5, 3 / 5],
    [1 / 5, 2 / 5],
  ]);
});

test("only exact numbers are in the distribution, and every text is counted once", () => {
  expect(countMinChanges(texts, 2)).toEqual({ exact: [1, 1, 0], robust: 1, open: 2 });
});
