import { expect, test } from "vitest";
import { UserError } from "../../../src/base/errors.js";
import { Rng } from "../../../src/base/rng.js";
import { computeConformalQuantile, countNeededTexts } from "../../../src/proofs/certificates/conformal.js";
import { calibrateThreshold } from "../../../src/proofs/certificates/index.js";

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
