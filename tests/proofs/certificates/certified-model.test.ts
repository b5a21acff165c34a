import { expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import {
  canonical,
  certifyHashVote,
  createCertificate,
  createGuardModel,
  createVotingModel,
  findLargestScore,
  runScoring,
  type ScoreTexts,
} from "../../../src/proofs/certificates/index.js";
import { expectClose, float64 } from "../../rounding.js";
import { createLookupModel, drawWords, scoreByParts } from "./synthetic.js";

test("the voting model predicts what the certificate certifies, ties included", async () => {
  const rng = new Rng("voting");
  const options = { groups: 6, hashSeed: 0, numLabels: 3 };
  const texts = Array.from({ length: 500 }, () => [drawWords(rng, rng.integer(12)).join(" ")]);
  const base = createLookupModel(1, 3);
  const scores = await scoreByParts(createVotingModel(options), base)(texts);
  const certificates = await runScoring(
    texts.map((text) => certifyHashVote(text, options)),
    base,
  );
  expect(scores.map(findLargestScore)).toEqual(certificates.map(({ label }) => label));
  const tied = certificates.filter(({ totals }) => new Set(totals).size < 3);
  expect(tied.length).toBeGreaterThan(100);
});

test("canonical forms and windows are classified", async () => {
  const base: ScoreTexts = (texts) => texts.map(([text]) => (text === "free" ? [0.1, 0.9] : [0.8, 0.2]));
  const facts = { kind: "canonical", numLabels: 2, editableFields: [0], minMargin: 0 };
  const { certify } = createCertificate(canonical, facts, "test");
  const answers = await runScoring(
    ["frее", "f r e e", "other"].map((text) => certify({ id: text, label: 1, texts: [text] })),
    base,
  );
  expect(answers).toMatchObject([
    { predicted: 1, probability: 0.9 },
    { predicted: 1, probability: 0.9 },
    { predicted: 0, probability: 0.8 },
  ]);
  const guard = { windows: 1, positiveLabel: 1, threshold: 0.5 };
  const windows = scoreByParts(createGuardModel(guard), base);
  expectClose((await windows([["so much is free here"]]))[0]![1]!, 0.9, float64);
  const first = scoreByParts(createGuardModel({ ...guard, positiveLabel: 0 }), base);
  expectClose((await first([["so free"]]))[0]![0]!, 0.8, float64);
});

test("a guard is a model whose decision is its threshold", async () => {
  const base: ScoreTexts = (texts) => texts.map(([text]) => [1 - Number(text), Number(text)]);
  const model = scoreByParts(createGuardModel({ windows: null, positiveLabel: 1, threshold: 0.8 }), base);
  const scores = (await model([["0"], ["0.5"], ["0.8"], ["0.81"], ["1"]])).map((row) => row[1]!);
  expect(scores.map((score) => score > 0.5)).toEqual([false, false, false, true, true]);
  expect([...scores].sort((a, b) => a - b)).toEqual(scores);
});
