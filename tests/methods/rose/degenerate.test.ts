import { expect, test, vi } from "vitest";
import { crossEntropy } from "../../../src/nn/index.js";
import type { TrainingMethod } from "../../../src/train/index.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { readValues, tinyModel } from "../tiny.js";
import { type TinyMethod, trainTiny } from "../train-tiny.js";

// RIFT caches its teacher features here.
vi.stubEnv("TEMPER_CACHE", temporaryFolder());

async function expectEqual(
  one: readonly TinyMethod[],
  other: readonly TinyMethod[],
  settings: object = {},
): Promise<void> {
  const [first, second, start] = [
    await trainTiny(one, settings),
    await trainTiny(other, settings),
    readValues(tinyModel().weights),
  ];
  expect(first.weights).toEqual(second.weights);
  expect(first.weights, "training changes the weights").not.toEqual(start);
}

/** A plain implementation of the mean cross-entropy of two dropout passes. */
const twoPasses: TrainingMethod = {
  name: "two passes",
  losses(context) {
    const [first, second] = context
      .passTwice("clean", "again")
      .map(({ logits }) => crossEntropy(logits, context.batch.labels));
    return new Map([["task", first!.add(second!).mul(0.5)]]);
  },
};

test("R-Drop with alpha 0 is the mean cross-entropy of two passes", () =>
  expectEqual([["r-drop", { alpha: 0 }]], [twoPasses]));

test.each(["first", "ensemble"])("ROSE (%s) that updates everything is its two-pass base", (variant) =>
  expectEqual([["rose", { variant, updateRatio: 1 }]], [twoPasses]),
);

test("ROSE (second) that updates everything is standard", () =>
  expectEqual([["rose", { variant: "second", updateRatio: 1 }]], []));

test.each(["first", "second", "ensemble"])("ROSE (%s) that updates everything on top of R-Drop is R-Drop", (variant) =>
  expectEqual([["r-drop"], ["rose", { variant, updateRatio: 1 }]], [["r-drop"]]),
);

test.each(["ptwd", "ascc", "rift", "freelb", "smart"])("ROSE that updates everything on top of $0 is $0", (base) =>
  expectEqual([[base], ["rose", { variant: "ensemble", updateRatio: 1 }]], [[base]]),
);

test("ROSE that updates everything is its base with gradient accumulation", () =>
  expectEqual([["rose", { variant: "first", updateRatio: 1 }]], [twoPasses], {
    gradientAccumulationSteps: 2,
  }));

test("Child-Tuning with all elements is standard", async () => {
  await expectEqual([["child-tuning", { updateRatio: 1 }]], []);
  await expectEqual([["child-tuning", { updateRatio: 1, variant: "F" }]], []);
});

test("SMART with lambda 0 and mu 0 is standard", () => expectEqual([["smart", { lambda: 0, mu: 0 }]], []));

test("FreeLB with one step and no perturbation is standard", () =>
  expectEqual([["freelb", { steps: 1, initMagnitude: 0, stepSize: 0 }]], []));

test("discrete-adversarial with alpha 0, energy with lambda 0 and mof with alpha 0 are standard", async () => {
  await expectEqual([["discrete-adversarial", { alpha: 0, interval: 1 }]], []);
  await expectEqual([["energy", { lambda: 0 }]], []);
  await expectEqual([["mof", { alpha: 0, interval: 1 }]], []);
});

test("the ensemble with gamma 1 is first-order ROSE", () =>
  expectEqual([["rose", { variant: "ensemble", gamma: 1 }]], [["rose", { variant: "first" }]]));

test("the ensemble with gamma 0 has the masks of second-order ROSE", async () => {
  const [ensemble, second] = [
    await trainTiny([["r-drop"], ["rose", { variant: "ensemble", gamma: 0 }]]),
    await trainTiny([["r-drop"], ["rose", { variant: "second" }]]),
  ];
  expect(ensemble.weights).toEqual(second.weights);
});

test("a frozen tensor keeps its values, and events report the updated fraction", async () => {
  // In the warm-up, too, unless maskDuringWarmup is false.
  const { events } = await trainTiny([["rose", { variant: "first", updateRatio: 0.6 }]], { warmupRatio: 0.5 });
  expect(events.map((event) => event["rose.updateRatio"])).toEqual(Array(6).fill(Math.fround(9 / 16)));
  for (const event of events) {
    const layers = [event["rose.updateRatio.0"], event["rose.updateRatio.1"]] as number[];
    expectClose((layers[0]! + layers[1]!) / 2, 9 / 16);
    expect(event["rose.divergence"]).toBeGreaterThan(0);
  }
  const frozen = await trainTiny([["rose", { variant: "first", updateRatio: 1e-3 }]]);
  const start = readValues(tinyModel().weights);
  const moved = Object.keys(start).filter(
    (name) => JSON.stringify(start[name]) !== JSON.stringify(frozen.weights[name]),
  );
  expect(moved.filter((name) => /\.layer\.\d+\..*\.weight$/.test(name))).toEqual([]);
  expect(moved).toContain("classifier.weight");
  expect(moved).toContain("bert.encoder.layer.0.output.dense.bias");
});

test("a base with two passes runs both as one batch and no other pass", async () => {
  const passes: string[] = [];
  const spy: TrainingMethod = {
    name: "spy",
    weights(pass, next) {
      passes.push(pass.name);
      return next();
    },
  };
  for (const method of [["r-drop"], ["rose", { variant: "first" }]] as const) await trainTiny([spy, method]);
  expect(passes).toEqual(Array(12).fill("clean+again"));
});
