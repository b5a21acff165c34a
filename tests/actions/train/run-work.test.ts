import { join } from "node:path";
import { expect, test } from "vitest";
import { computeRunSeconds, measureRun } from "../../../src/actions/train/estimate-run.js";
import { type CountedWork, countWork as countResolvedWork } from "../../../src/actions/train/run-work.js";
import { train } from "../../../src/actions/train/train.js";
import { listen } from "../../../src/base/events.js";
import type { RunConfig } from "../../../src/settings/config.js";
import { resolveRun, userModules } from "../../../src/settings/read-config.js";
import { getMemoryStats } from "../../../src/tensor/index.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyRun, writeReviews } from "../../tiny-run.js";

const folder = temporaryFolder();
const config = await tinyRun(folder, { train: { epochs: 2 } });

const resolve = (settings: RunConfig) => resolveRun(settings, userModules);
const countWork = async (configs: readonly RunConfig[]): Promise<CountedWork> =>
  countResolvedWork(await Promise.all(configs.map(resolve)));

/** The same run with other settings of the training. */
const withTrain = (changes: Partial<RunConfig["train"]>, more: Partial<RunConfig> = {}): RunConfig => ({
  ...config,
  ...more,
  train: { ...config.train, ...changes },
});

test("the steps that are counted are those that a run takes", async () => {
  const configs = [
    config,
    withTrain({ batchSize: 7, gradientAccumulationSteps: 3 }),
    withTrain({ batchSampler: "single-class", epochs: 1.5 }),
    withTrain({ evalSteps: 5 }),
    withTrain({ evalEpochs: [1] }),
    withTrain({}, { methods: [{ name: "random-windows", options: { size: 2, copies: 3 } }] }),
  ];
  const { works, sample } = await countWork(configs);
  for (const [i, changed] of configs.entries()) {
    let [steps, evaluations] = [0, 0];
    const out = join(folder, `run-${i}`);
    const events = listen({ start: ({ totalSteps }) => (steps = totalSteps), evaluation: () => evaluations++ });
    await train({ ...changed, out }, events);
    expect(works[i]).toMatchObject({ steps, evaluations, examples: { validation: 12, test: 12 } });
  }
  const lengths = sample.map(({ texts }) => texts[0]!.split(" ").length);
  expect(lengths).toEqual([...lengths].sort((a, b) => b - a));
});

test("a sample of the texts gives nearly the work of all", async () => {
  const count = async (examples: number, maxTrainSamples: number | null) => {
    const data = writeReviews(join(folder, `many-${examples}.tsv`), examples);
    const { works } = await countWork([withTrain({}, { data, maxTrainSamples })]);
    return works[0]!;
  };
  const [few, many] = [await count(480, 360), await count(3000, 2160)];
  expect(many.examples.train).toBe(6 * few.examples.train);
  expect(many.stepsPerEpoch).toBe(6 * few.stepsPerEpoch);
  expect(many.parameters).toBe(few.parameters);
  const ratios = [many.flops.step / few.flops.step, many.flops.train / few.flops.train / 6];
  for (const ratio of ratios) expect(Math.abs(ratio - 1)).toBeLessThan(0.1);
});

test("a run is measured on the sample, without its data and without a trace", async () => {
  const { works, sample } = await countWork([config]);
  const [work] = works;
  const before = getMemoryStats().tensors;
  const moved = { ...config, maxTrainSamples: 1 };
  const measured = await measureRun(await resolve(moved), { sample, stepsPerEpoch: work!.stepsPerEpoch, seconds: 0 });
  expect(getMemoryStats().tensors).toBe(before);
  expect(measured).toMatchObject({ device: "cpu", modelParameters: work!.parameters, steps: [{ batchSize: 2 }] });
});

test("the time of a run is scaled by its steps, its FLOPs and the size of its model", async () => {
  const [work] = (await countWork([config])).works;
  const step = { batchSize: 1, length: 1, memoryBytes: 0 };
  const benchmark = {
    ...({ device: "cpu", precision: "fp32", threads: 1 } as const),
    ...{ parameters: 1, modelParameters: work!.parameters },
    ...{ passes: 2, validateRate: 5, predictRate: 7 },
    steps: [
      { ...step, flops: 1, seconds: 12 },
      { ...step, flops: 2, seconds: 14 },
    ],
  };
  const { flops, steps, evaluations } = work!;
  const seconds = computeRunSeconds(work!, benchmark);
  expectClose(seconds.prepare, 2 * 3 * 7 * flops.train, { format: "float64" });
  expectClose(seconds.train, steps * (10 + 2 * flops.step), { format: "float64" });
  expectClose(seconds.evaluate, 5 * evaluations * flops.validation + 7 * flops.test, { format: "float64" });
  const small = { ...benchmark, modelParameters: work!.parameters / 3 };
  expectClose(computeRunSeconds(work!, small).train, steps * (30 + 2 * flops.step), { format: "float64" });
});
