import { expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import {
  listWindowSizes,
  listWindows,
  runScoring,
  type ScoreTexts,
  scoreWindows,
  type WindowScore,
} from "../../../src/proofs/certificates/index.js";
import { chooseExtent } from "../../extent.js";
import { drawWords, hashToUnit } from "./synthetic.js";

/** Any change of a window changes its score. */
const randomScorer: ScoreTexts = (texts) =>
  texts.map(([text]) => {
    const positive = hashToUnit(text!, 7);
    return [1 - positive, positive];
  });

function score(texts: readonly string[], sizes: readonly number[]): Promise<WindowScore[]> {
  return runScoring(
    texts.map((text) => scoreWindows(text, sizes, 1)),
    randomScorer,
  );
}

test("the sizes of windows", () => {
  expect(listWindowSizes(6)).toEqual([1, 2, 4, 6]);
  expect(listWindowSizes(8)).toEqual([1, 2, 4, 8]);
  expect(listWindowSizes(1)).toEqual([1]);
  for (const size of [0, 1.5, Number.NaN]) expect(() => listWindowSizes(size)).toThrow("at least 1 word");
});

test("windows are runs of words with the characters between them", () => {
  expect(listWindows("Buy now! Cheap, cheap pills.", [2])).toEqual([
    "Buy now",
    "now! Cheap",
    "Cheap, cheap",
    "cheap pills",
  ]);
  expect(listWindows("a a a", [1, 2])).toEqual(["a", "a a"]);
  expect(listWindows("only three words", [4])).toEqual([]);
  // With every size, a short text is a window itself.
  expect(listWindows("only three words", [1, 2, 3, 4])).toContain("only three words");
});

test("a text without windows scores 0, and scores must be probabilities", async () => {
  expect(await score(["?!"], [1])).toEqual([{ score: 0, window: null, windows: 0 }]);
  const wrong = runScoring([scoreWindows("a", [1], 0)], () => [[-0.5]]);
  await expect(wrong).rejects.toThrow("expected a probability, received -0.5");
});

const separators = [" ", ", ", "! ", "\n", " - ", "\t'"];

/** A text of random words and punctuation. */
function drawText(rng: Rng, count: number): string {
  return drawWords(rng, count)
    .map((word) => word + separators[rng.integer(separators.length)])
    .join("");
}

interface Pair {
  readonly text: string;
  readonly longer: string;
}

function drawPairs(count: number): Pair[] {
  const rng = new Rng("windows");
  return Array.from({ length: count }, () => {
    const text = drawText(rng, rng.integer(8));
    return { text, longer: `${drawText(rng, rng.integer(8))} ${text} ${drawText(rng, rng.integer(8))}` };
  });
}

test("appended and prepended text never lowers the score, and the window proves it", async () => {
  const pairs = drawPairs(chooseExtent(4000, 50_000));
  for (const sizes of [[1, 2, 3, 4, 5], listWindowSizes(5), [5]]) {
    const before = await score(
      pairs.map(({ text }) => text),
      sizes,
    );
    const after = await score(
      pairs.map(({ longer }) => longer),
      sizes,
    );
    expect(pairs.filter((_, i) => after[i]!.score < before[i]!.score)).toEqual([]);
    const unproven = pairs.filter(({ longer }, i) => {
      const { window } = before[i]!;
      return window !== null && !listWindows(longer, sizes).includes(window);
    });
    expect(unproven).toEqual([]);
  }
}, 900_000);

test("planted mistake: a short text that is a window only by itself is caught", async () => {
  const scoreShort = async (texts: readonly string[]): Promise<number[]> => {
    const wholes = await randomScorer(texts.map((text) => [text.trim()]));
    const windows = await score(texts, [5]);
    return texts.map((_, i) => (windows[i]!.window === null ? wholes[i]![1]! : windows[i]!.score));
  };
  const pairs = drawPairs(500);
  const before = await scoreShort(pairs.map(({ text }) => text));
  const after = await scoreShort(pairs.map(({ longer }) => longer));
  expect(pairs.filter((_, i) => after[i]! < before[i]!).length).toBeGreaterThan(0);
});
