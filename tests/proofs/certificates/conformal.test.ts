import { expect, test } from "vitest";
import { UserError } from "../../../src/base/errors.js";
import { Rng } from "../../../src/base/rng.js";
import { computeConformalQuantile, countNeededTexts } from "../../../src/proofs/certificates/conformal.js";
import {
  calibrateLabelSets,
  calibrateThreshold,
  computeDeletionShift,
  createDeletionKernel,
  listLabels,
} from "../../../src/proofs/certificates/index.js";
import { expectClose, float64 } from "../../rounding.js";

test("the threshold is the ceil((n + 1)(1 - fpr))-th smallest score", () => {
  const scores = Array.from({ length: 99 }, (_, i) => (i + 1) / 100).reverse();
  expect(calibrateThreshold(scores, 0.05)).toBe(0.95);
  expect(calibrateThreshold(scores, 0.01)).toBe(0.99);
  expect(calibrateThreshold(scores, 0.1)).toBe(0.9);
  expect(computeConformalQuantile(scores, 0.905)).toBe(0.91);
  expect(() => computeConformalQuantile([Number.NaN], 0.5)).toThrow("NaN");
});

test("too few benign texts, and rates that are none, are errors", () => {
  for (const [fpr, needed] of [
    [0.01, 99],
    [0.05, 19],
    [0.5, 1],
  ] as const) {
    expect(countNeededTexts(1 - fpr)).toBe(needed);
    expect(() => calibrateThreshold(new Float64Array(needed), fpr)).not.toThrow();
    const create = (): unknown => calibrateThreshold(new Float64Array(needed - 1), fpr);
    expect(create).toThrow(UserError);
    expect(create).toThrow(`needs at least ${needed} benign texts, received ${needed - 1}`);
  }
  for (const fpr of [0, 1, -1, Number.NaN]) expect(() => calibrateThreshold([1, 2], fpr)).toThrow("--fpr");
});

const trials = 20_000;

/** Three standard errors of a rate of 0.1. */
const rateError = 3 * Math.sqrt((0.1 * 0.9) / trials);

/** How often the next benign text is flagged, over many calibrations. */
function countFalseAlarms(calibrate: (scores: readonly number[]) => number): number {
  let alarms = 0;
  for (let i = 0; i < trials; i++) {
    const rng = new Rng(i % 200).fork("alarms", Math.floor(i / 200));
    const threshold = calibrate(Array.from({ length: 20 }, () => rng.next()));
    alarms += Number(rng.next() > threshold);
  }
  return alarms / trials;
}

test("the contract holds for the next text", () => {
  const rate = countFalseAlarms((scores) => calibrateThreshold(scores, 0.1));
  expect(rate).toBeLessThan(0.1 + rateError);
  // 2 of 21 ranks are above the 19th smallest of 20.
  expect(Math.abs(rate - 2 / 21)).toBeLessThan(rateError);
});

test("planted mistake: a threshold that is chosen on the evaluated texts is caught", () => {
  // On the texts themselves, exactly 10% are above it.
  const chooseOnTestSet = (scores: readonly number[]): number => {
    const threshold = [...scores].sort((a, b) => a - b)[17]!;
    expect(scores.filter((score) => score > threshold).length / scores.length).toBe(0.1);
    return threshold;
  };
  expect(countFalseAlarms(chooseOnTestSet)).toBeGreaterThan(0.1 + rateError);
});

const goodWords = ["good", "fine", "warm"];
const badWords = ["bad", "dull", "cold"];

/** Texts of six words, four of them of their own class. */
function drawText(rng: Rng, label: number): string[] {
  const own = label === 0 ? goodWords : badWords;
  const other = label === 0 ? badWords : goodWords;
  return Array.from({ length: 6 }, (_, i) => (i < 4 ? own : other)[rng.integer(3)]!);
}

/** The probabilities of a model that counts words. */
function classify(text: string): number[] {
  const words = text === "" ? [] : text.split(" ");
  const margin = words.reduce((sum, word) => sum + (goodWords.includes(word) ? 1 : -1), 0);
  const good = 1 / (1 + Math.exp(-margin));
  return [good, 1 - good];
}

/** The fraction of edited texts whose set has the true label, over many calibrations. */
function computeCoverage(shift: number, p: number, edits: number, coverage: number): number {
  let [covered, total] = [0, 0];
  for (let run = 0; run < 60; run++) {
    const rng = new Rng(run).fork("coverage");
    const noise = (words: readonly string[]): number[] => classify(createDeletionKernel([words.join(" ")], p)(rng)[0]!);
    const labels = Array.from({ length: 200 }, (_, i) => i % 2);
    const maxScore = calibrateLabelSets(
      labels.map((label) => noise(drawText(rng, label))),
      labels,
      coverage,
      shift,
    );
    for (let i = 0; i < 200; i++) {
      const label = i % 2;
      // The attacker replaces words of the text's class.
      const edited = drawText(rng, label).map((word, k) => (k < edits ? (label === 0 ? "bad" : "good") : word));
      covered += Number(listLabels(noise(edited), maxScore).includes(label));
      total++;
    }
  }
  return covered / total;
}

test("label sets cover the true label, also under edits", () => {
  const p = 0.6;
  // Three standard errors of 12,000 draws.
  const margin = 0.013;
  expect(computeCoverage(0, p, 0, 0.8)).toBeGreaterThan(0.8 - margin);
  expect(computeCoverage(computeDeletionShift(0.85, 1), 0.85, 1, 0.8)).toBeGreaterThan(0.8 - margin);
});

test("planted mistake: label sets that ignore the edits are caught", () => {
  expect(computeCoverage(0, 0.6, 2, 0.8)).toBeLessThan(0.78);
});

test("label sets: hand-computed, and errors", () => {
  const rows = [0.9, 0.8, 0.7, 0.6, 0.95, 0.85, 0.75, 0.65, 0.55].map((first) => [first, 1 - first]);
  const labels = rows.map(() => 0);
  // ceil(10 * 0.8) = 8: the 8th smallest of 1 - p is 0.4.
  const maxScore = calibrateLabelSets(rows, labels, 0.8);
  expectClose(maxScore, 0.4, { ...float64, scale: 1 });
  expect(listLabels([0.7, 0.3], maxScore)).toEqual([0]);
  expect(listLabels([0.5, 0.5], maxScore)).toEqual([]);
  expect(listLabels([0.6, 0.61], maxScore)).toEqual([0, 1]);
  expect(() => calibrateLabelSets(rows, labels, 0.95)).toThrow("needs at least 19 calibration texts, received 9");
  expect(() => calibrateLabelSets(rows, labels, 0.9, 0.1)).toThrow("the sum must be below 1");
  expect(() => calibrateLabelSets(rows, labels, 1)).toThrow("--coverage: expected a probability");
  expect(() => calibrateLabelSets(rows, [0], 0.5)).toThrow("one label per text");
});
