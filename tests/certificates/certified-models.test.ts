import { expect, test } from "vitest";
import {
  certifyHashVote,
  createCanonicalModel,
  createSmoothedModel,
  createVotingModel,
  createWindowModel,
  runScoring,
  type ScoreTexts,
} from "../../src/certificates/index.js";
import { findLargestScore } from "../../src/certificates/scoring.js";
import { Rng } from "../../src/tensor/random.js";
import { createLookupModel, drawWords } from "./synthetic.js";

test("the voting model predicts what the certificate certifies, ties included", async () => {
  const rng = new Rng("voting");
  const options = { groups: 6, hashSeed: 0, numLabels: 3 };
  const texts = Array.from({ length: 500 }, () => [drawWords(rng, rng.integer(12)).join(" ")]);
  const base = createLookupModel(1, 3);
  const scores = await createVotingModel(base, options)(texts);
  const certificates = await runScoring(
    texts.map((text) => certifyHashVote(text, options)),
    base,
  );
  expect(scores.map(findLargestScore)).toEqual(certificates.map(({ label }) => label));
  const tied = certificates.filter(({ totals }) => new Set(totals).size < 3);
  expect(tied.length).toBeGreaterThan(100);
});

test("the smoothed model uses the same draws for every text, and the mean approaches the exact one", async () => {
  // The probability of label 1 is 1 if the word is there: 0.25 after deletion.
  const base: ScoreTexts = (texts) => texts.map(([text]) => (text!.includes("bad") ? [0, 1] : [1, 0]));
  const model = createSmoothedModel(base, { p: 0.75, draws: 2000, seed: 0, numLabels: 2 });
  const [bad, same, good] = await model([["bad film"], ["bad film"], ["good film"]]);
  expect(Math.abs(bad![1]! - 0.25)).toBeLessThan(0.03);
  expect(same).toEqual(bad);
  expect(good).toEqual([1, 0]);
});

test("the canonical model and the window model", async () => {
  const base: ScoreTexts = (texts) => texts.map(([text]) => (text === "free" ? [0.1, 0.9] : [0.8, 0.2]));
  const canonical = createCanonicalModel(base);
  expect(await canonical([["frее"], ["f r e e"], ["other"]])).toEqual([
    [0.1, 0.9],
    [0.1, 0.9],
    [0.8, 0.2],
  ]);
  const windows = createWindowModel(base, [1], 1);
  expect((await windows([["so much is free here"]]))[0]![1]).toBe(0.9);
  expect((await createWindowModel(base, [1], 0)([["so free"]]))[0]![0]).toBe(0.8);
});
