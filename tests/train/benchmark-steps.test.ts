import { afterAll, afterEach, expect, test } from "vitest";
import { createMethods, defineMethod, methods } from "../../src/methods/index.js";
import { countForwardFlops } from "../../src/models/index.js";
import { free, getMemoryStats } from "../../src/tensor/index.js";
import { benchmarkSteps, fitStepTime, type TrainingMethod, toDataset } from "../../src/train/index.js";
import { readValues, texts, tinyDataset, tinyJob, tinyModel } from "../methods/tiny.js";
import { expectClose } from "../rounding.js";

const model = tinyModel();
const pretrained = readValues(model.weights);
afterAll(() => free(model.weights));
afterEach(() => {
  expect(readValues(model.weights)).toEqual(pretrained);
});

/** Ten of each text, so that a batch of 32 is possible. */
const manyTexts = tinyDataset(Array.from({ length: 10 }, () => texts).flat());
const longest = Math.max(...manyTexts.lengths);
const settings = { batchSize: 32 };

/** Counts the passes of each batch size at each step. */
function createCounter(graphKey?: (stepIndex: number) => string): { sizes: number[][]; method: TrainingMethod } {
  const sizes: number[][] = [];
  const method: TrainingMethod = {
    name: "counter",
    ...(graphKey && { traits: { graphKey } }),
    losses(context, next) {
      sizes.push([context.stepIndex, context.batch.batchSize]);
      return next();
    },
  };
  return { sizes, method };
}

/** A clock on which every step takes so many seconds per text. */
function createClock(sizes: readonly (readonly number[])[], seconds: number): () => number {
  return () => 1000 * seconds * sizes.reduce((sum, [, size]) => sum + size!, 0);
}

test("measures steps of growing size up to the batch of the run, after one step to warm up", async () => {
  const { sizes, method } = createCounter();
  const job = tinyJob(model, [method], { train: manyTexts }, settings);
  const before = getMemoryStats().tensors;
  const { steps, validateRate } = await benchmarkSteps(job, { stepsPerEpoch: 4, now: createClock(sizes, 1) });
  expect(getMemoryStats().tensors).toBe(before);
  // No text has more than 32 tokens, so 32 short ones are the batch of the run.
  expect(sizes.map(([, size]) => size)).toEqual([2, 2, 8, 32]);
  const flops = [2, 8, 32].map((rows) => countForwardFlops(model.architecture.config, rows, longest));
  expect(steps.map(({ batchSize, length, seconds }) => [batchSize, length, seconds])).toEqual([
    [2, longest, 2],
    [8, longest, 8],
    [32, longest, 32],
  ]);
  expect(steps.map((step) => step.flops)).toEqual(flops);
  expect(validateRate).toBe(0);
  expect(fitStepTime(steps)).toEqual({ perStep: 0, rate: 32 / flops[2]! });
});

test("quick steps are repeated, and larger ones are left out if they do not fit into the time", async () => {
  const { sizes, method } = createCounter();
  const job = tinyJob(model, [method], { train: manyTexts }, settings);
  const { steps } = await benchmarkSteps(job, { stepsPerEpoch: 4, seconds: 4, now: createClock(sizes, 0.1) });
  // 0.8 s have passed after four steps of 2; the next size takes 0.8 s, and the last one 3.2 s.
  expect(sizes.map(([, size]) => size)).toEqual([2, 2, 2, 2, 8]);
  expect(steps).toHaveLength(2);
  const rest = await benchmarkSteps(job, { stepsPerEpoch: 4, seconds: 0, now: createClock(sizes, 0.1) });
  expect(rest.steps).toHaveLength(1);
});

test("the time that a method takes to prepare leaves as much for the steps", async () => {
  const { sizes, method } = createCounter();
  const slow = { ...method, prepare: async () => void sizes.push([-1, 100]) };
  const job = tinyJob(model, [slow], { train: manyTexts }, settings);
  const { steps } = await benchmarkSteps(job, { stepsPerEpoch: 4, seconds: 4, now: createClock(sizes, 0.1) });
  expect(steps).toHaveLength(2);
});

test("each kind of step is measured, weighted by how often it occurs", async () => {
  const { sizes, method } = createCounter((stepIndex) => (stepIndex % 4 === 0 ? "slow" : "fast"));
  const clock = (): number => 1000 * sizes.reduce((sum, [step]) => sum + (step! % 4 === 0 ? 9 : 1), 0);
  const job = tinyJob(model, [method], { train: manyTexts }, { batchSize: 2, epochs: 2 });
  const { steps } = await benchmarkSteps(job, { stepsPerEpoch: 60, now: clock });
  expect(sizes.map(([step]) => step)).toEqual([1, 1, 0, 0]);
  expect(steps.map(({ seconds }) => seconds)).toEqual([0.75 * 1 + 0.25 * 9]);
});

test("passes over the data before training are counted, and validation includes the metrics of methods", async () => {
  let now = 0;
  const evaluated: number[] = [];
  const timed = defineMethod({
    name: "timed",
    summary: "passes over the data",
    paper: "",
    options: methods.get("freelb")!.options,
    create: () => ({
      name: "timed",
      async prepare(training) {
        for (const label of ["first pass", "second pass"])
          await training.averageOverBatches(new Map(), () => undefined, label);
      },
      extraMetrics: async (_training, items) => {
        evaluated.push(items.length);
        now += 1000 * items.length;
        return {};
      },
    }),
  });
  const job = tinyJob(model, createMethods([timed()]), { train: manyTexts, validation: manyTexts }, settings);
  const { passes, validateRate } = await benchmarkSteps(job, { stepsPerEpoch: 4, now: () => now });
  expect(passes).toBe(2);
  // The sorted texts begin with the longest.
  const flops = countForwardFlops(model.architecture.config, 1, longest);
  expect(evaluated).toEqual([8]);
  expectClose(validateRate, 1 / flops, { format: "float64" });
});

test.each([...methods.keys()])("%s can be measured with two texts", async (name) => {
  const options = { "hash-vote": { groups: 3 }, rift: {} }[name] ?? {};
  const specs = [...(name === "rift" ? [{ name: "ascc", options: {} }] : []), { name, options }];
  const data = toDataset(
    model,
    manyTexts.items.map(({ example }) => example),
  );
  const changes = { train: data, validation: data };
  const before = getMemoryStats().tensors;
  const job = tinyJob(model, createMethods(specs), changes, { batchSize: 8 });
  const { steps, parameters } = await benchmarkSteps(job, { stepsPerEpoch: 15, seconds: 0 });
  expect(steps).toHaveLength(1);
  expect(parameters).toBeGreaterThan(0);
  expect(getMemoryStats().tensors).toBe(before);
});

test("the constant and the rate of a step follow from its two largest sizes", () => {
  const measure = (flops: number, seconds: number) => ({ batchSize: 1, length: 1, memoryBytes: 0, flops, seconds });
  expect(fitStepTime([measure(1, 99), measure(10, 3), measure(20, 5)])).toEqual({ perStep: 1, rate: 0.2 });
  // The larger step was faster by noise.
  expect(fitStepTime([measure(10, 6), measure(20, 4)])).toEqual({ perStep: 3, rate: 0.05 });
  expect(fitStepTime([measure(10, 4)])).toEqual({ perStep: 0, rate: 0.4 });
  expect(fitStepTime([measure(10, 4)], 1)).toEqual({ perStep: 1, rate: 0.3 });
  expect(fitStepTime([measure(10, 4)], 9)).toEqual({ perStep: 2, rate: 0.2 });
});
