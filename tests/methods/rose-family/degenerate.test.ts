import { expect, test, vi } from "vitest";
import { createMethods } from "../../../src/methods/index.js";
import { crossEntropy } from "../../../src/nn/index.js";
import { free } from "../../../src/tensor/index.js";
import { type TrainingMethod, train } from "../../../src/train/index.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyJob, tinyModel, valuesOf } from "../tiny.js";

// RIFT remembers its teacher here.
vi.stubEnv("TEMPER_CACHE", temporaryFolder());

type Method = [name: string, options?: Record<string, unknown>];

interface Trained {
  weights: Record<string, number[]>;
  events: Record<string, unknown>[];
}

/** Six updates with dropout, decay and clipping; the weights and the events after them. */
async function trained(
  methods: readonly Method[] | readonly TrainingMethod[],
  settings: object = {},
): Promise<Trained> {
  const layers = methods.flatMap((method) =>
    Array.isArray(method) ? createMethods([{ name: method[0], options: method[1] ?? {} }]) : [method],
  );
  const model = tinyModel();
  const events: Record<string, unknown>[] = [];
  await train(
    tinyJob(
      model,
      layers as TrainingMethod[],
      { callbacks: { onEvent: (event) => void events.push(event) } },
      settings,
    ),
  );
  const weights = valuesOf(model.weights);
  free(model.weights);
  return { weights, events };
}

async function expectEqual(
  one: readonly Method[],
  other: readonly Method[] | readonly TrainingMethod[],
  settings: object = {},
): Promise<void> {
  const [first, second, start] = [
    await trained(one, settings),
    await trained(other, settings),
    valuesOf(tinyModel().weights),
  ];
  expect(first.weights).toEqual(second.weights);
  expect(first.weights, "training moves the weights").not.toEqual(start);
}

/** The mean cross-entropy of two dropout passes, written out. */
const twoPasses: TrainingMethod = {
  name: "two passes",
  losses(step) {
    const [first, second] = step
      .passTwice("clean", "again")
      .map(({ logits }) => crossEntropy(logits, step.batch.labels));
    return new Map([["task", first!.add(second!).mul(0.5)]]);
  },
};

test("R-Drop with alpha 0 is the mean cross-entropy of two passes", () =>
  expectEqual([["r-drop", { alpha: 0 }]], [twoPasses]));

test.each(["first", "ensemble"])("ROSE (%s) that keeps everything is its two-pass base", (order) =>
  expectEqual([["rose", { order, keep: 1 }]], [twoPasses]),
);

test("ROSE (second) that keeps everything is standard", () =>
  expectEqual([["rose", { variant: "second", keep: 1 }]], []));

test("ROSE over single elements that keeps everything is its base", () =>
  expectEqual([["rose", { variant: "ensemble", keep: 1, granularity: "element", eligible: "all" }]], [twoPasses]));

test.each(["first", "second", "ensemble"])("ROSE (%s) that keeps everything over R-Drop is R-Drop", (order) =>
  expectEqual([["r-drop"], ["rose", { order, keep: 1 }]], [["r-drop"]]),
);

test.each(["ptwd", "ascc", "rift", "freelb", "smart"])("ROSE that keeps everything over $0 is $0", (base) =>
  expectEqual([[base], ["rose", { variant: "ensemble", keep: 1 }]], [[base]]),
);

test("ROSE that keeps everything is its base with several batches an update and a mask that is held", () =>
  expectEqual([["rose", { variant: "first", keep: 1, refresh: 2 }]], [twoPasses], { gradientAccumulationSteps: 2 }));

test("Child-Tuning with all elements is standard", async () => {
  await expectEqual([["child-tuning", { keep: 1 }]], []);
  await expectEqual([["child-tuning", { keep: 1, variant: "F" }]], []);
});

test("SMART with lambda 0 and mu 0 is standard", () => expectEqual([["smart", { lambda: 0, mu: 0 }]], []));

test("FreeLB with one step and no perturbation is standard", () =>
  expectEqual([["freelb", { steps: 1, initial: 0, stepSize: 0 }]], []));

test("the ensemble with gamma 1 is first-order ROSE", () =>
  expectEqual([["rose", { variant: "ensemble", gamma: 1 }]], [["rose", { variant: "first" }]]));

test("the ensemble with gamma 0 has second-order ROSE's masks", async () => {
  const [ensemble, second] = [
    await trained([["r-drop"], ["rose", { variant: "ensemble", gamma: 0 }]]),
    await trained([["r-drop"], ["rose", { variant: "second" }]]),
  ];
  expect(ensemble.weights).toEqual(second.weights);
});

test("a tensor that is frozen keeps its values, and the events tell how many were", async () => {
  const { events } = await trained([["rose", { variant: "first", keep: 0.6 }]]);
  expect(events.map((event) => event["rose.kept"])).toEqual(Array(6).fill(Math.fround(9 / 16)));
  for (const event of events) {
    const layers = [event["rose.kept.0"], event["rose.kept.1"]] as number[];
    expect((layers[0]! + layers[1]!) / 2).toBeCloseTo(9 / 16, 6);
    expect(event["rose.divergence"]).toBeGreaterThan(0);
  }
  const frozen = await trained([["rose", { variant: "first", keep: 1e-3 }]]);
  const start = valuesOf(tinyModel().weights);
  const moved = Object.keys(start).filter(
    (name) => JSON.stringify(start[name]) !== JSON.stringify(frozen.weights[name]),
  );
  expect(moved.filter((name) => /\.layer\.\d+\..*\.weight$/.test(name))).toEqual([]);
  expect(moved).toContain("classifier.weight");
  expect(moved).toContain("bert.encoder.layer.0.output.dense.bias");
});

test("a mask that is held serves as many updates as refresh says", async () => {
  const { events } = await trained([["rose", { variant: "first", keep: 0.4, refresh: 3 }]]);
  expect(events.map((event) => "rose.divergence" in event)).toEqual([true, false, false, true, false, false]);
  const kept = events.map((event) => event["rose.kept.0"]);
  expect([kept[1], kept[2]]).toEqual([kept[0], kept[0]]);
});

test("a base of two passes runs both as one batch, and nothing else", async () => {
  const passes: string[] = [];
  const spy: TrainingMethod = {
    name: "spy",
    weights(pass, next) {
      passes.push(pass.name);
      return next();
    },
  };
  for (const method of [
    { name: "r-drop", options: {} },
    { name: "rose", options: { variant: "first", refresh: 2 } },
  ])
    await trained([spy, ...createMethods([method])]);
  expect(passes).toEqual(Array(12).fill("clean+again"));
});

test("auto chooses shares within the grid, and a gamma", async () => {
  const { events } = await trained([["rose", { variant: "ensemble", keep: "auto", gamma: "auto" }]]);
  for (const event of events.slice(1)) {
    expect(event["rose.kept"]).toBeGreaterThanOrEqual(0.1);
    expect(event["rose.kept"]).toBeLessThanOrEqual(0.9);
    expect(event["rose.gamma"]).toBeGreaterThan(0);
    expect(event["rose.gamma"]).toBeLessThan(1);
  }
});

test("options that cannot be say what was expected", () => {
  const made = (options: Record<string, unknown>) => () => createMethods([{ name: "rose", options }]);
  expect(made({ keep: 60 })).toThrow(/keep: expected a share in \(0, 1\], such as 0.6, received 60/);
  expect(made({ keep: "auto", granularity: "element" })).toThrow(/needs granularity: tensor/);
});
