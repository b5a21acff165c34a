import { describe, expect, it } from "vitest";
import { computeLearningRateFactor, type TrainSettings } from "../../src/train/settings.js";

function listFactors(
  lrScheduler: TrainSettings["lrScheduler"],
  warmupRatio: number,
  totalSteps: number,
  epoch = 0,
): number[] {
  const settings = { lrScheduler, warmupRatio };
  return Array.from({ length: totalSteps }, (_, step) => computeLearningRateFactor(settings, step, totalSteps, epoch));
}

describe("the factor of the learning rate", () => {
  it("is always 1, or falls from 1 to 0 after the last step", () => {
    expect(listFactors("constant", 0, 3)).toEqual([1, 1, 1]);
    expect(listFactors("linear", 0, 4)).toEqual([1, 0.75, 0.5, 0.25]);
    expect(computeLearningRateFactor({ lrScheduler: "linear", warmupRatio: 0 }, 4, 4, 0)).toBe(0);
  });

  it("rises from 0 over its fraction of the steps", () => {
    expect(listFactors("linear", 0.5, 8)).toEqual([0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25]);
    expect(listFactors("constant", 0.1, 5)).toEqual([1, 1, 1, 1, 1]); // less than one step
  });

  it("repeats the last factor of a list", () => {
    expect([0, 1, 2, 3].map((epoch) => listFactors([0.1, 0.55, 1], 0, 1, epoch)[0])).toEqual([0.1, 0.55, 1, 1]);
  });
});
