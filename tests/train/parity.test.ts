import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listen } from "../../src/base/events.js";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { cpuFloat32, loadModel } from "../../src/models/index.js";
import type { Task } from "../../src/tasks/task.js";
import { free, type Tensor } from "../../src/tensor/index.js";
import { singleRank, type TrainingMethod, toDataset, train, trainSettingsSchema } from "../../src/train/index.js";
import { unitRoundoff } from "../rounding.js";

const folder = join(import.meta.dirname, "../fixtures/train");
const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
  settings: Record<string, number>;
  texts: string[][];
  labels: number[];
  steps: { rate: number; loss: number; gradientNorm: number }[];
};

async function readFloats(file: string): Promise<Map<string, Float32Array>> {
  const opened = await openSafetensors(join(folder, file));
  const values = [...opened.entries.keys()].map((name): [string, Float32Array] => {
    const bytes = opened.readSync(name);
    return [name, new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength))];
  });
  await opened.close();
  return new Map(values);
}

/** The largest difference between tensors of the same names. */
function computeMaxDifference(
  ours: ReadonlyMap<string, Tensor | Float32Array>,
  theirs: ReadonlyMap<string, Float32Array>,
): number {
  expect([...ours.keys()].sort()).toEqual([...theirs.keys()].sort());
  let max = 0;
  for (const [name, value] of ours) {
    const [mine, other] = [value instanceof Float32Array ? value : value.toFloat32Array(), theirs.get(name)!];
    expect(mine).toHaveLength(other.length);
    for (let i = 0; i < mine.length; i++) max = Math.max(max, Math.abs(mine[i]! - other[i]!));
  }
  return max;
}

/** Trains like the fixture, with all texts in one batch. */
async function trainFixture(
  stopAfter: number,
  changes: { batchSize?: number; gradientAccumulationSteps?: number; maxGradNorm?: null } = {},
) {
  const model = await loadModel(folder);
  const task = { name: "fixture", labels: model.labels } as unknown as Task;
  const dataset = toDataset(
    model,
    expected.texts.map((texts, i) => ({ id: String(i), texts, label: expected.labels[i]! })),
  );
  const events: Record<string, unknown>[] = [];
  const gradients = new Map<string, Float32Array>();
  const observer: TrainingMethod = {
    name: "observer",
    transformUpdates(step, next) {
      if (step.stepIndex === 0)
        for (const [name, gradient] of step.gradients) gradients.set(name, gradient.toFloat32Array());
      return next();
    },
  };
  const { updates, clip, beta1, beta2, epsilon, ...rest } = expected.settings;
  const settings = {
    ...rest,
    epochs: updates,
    maxGradNorm: clip,
    adamBeta1: beta1,
    adamBeta2: beta2,
    adamEpsilon: epsilon,
    batchSize: 8,
    dropout: false,
    ...changes,
  };
  await train({
    model,
    task,
    settings: trainSettingsSchema.parse(settings),
    methods: [observer],
    train: dataset,
    validation: null,
    seed: 3,
    deviceConfig: cpuFloat32,
    files: null,
    resume: false,
    ranks: singleRank,
    ...listen({ log: ({ entry }) => events.push(entry) }),
    stopAfter,
  });
  const weights = new Map([...model.weights].map(([name, tensor]) => [name, tensor.toFloat32Array()]));
  free(model.weights);
  return { weights, events, gradients };
}

/** Equal up to so many roundings. The norm is a long sum of squares that do not cancel. */
function expectRounded(actual: number, wanted: number, roundings = 64): void {
  expect(Math.abs(actual - wanted)).toBeLessThanOrEqual(roundings * unitRoundoff.float32 * Math.abs(wanted));
}

test("one step has the loss, gradients and weights of PyTorch", async () => {
  const { weights, events, gradients } = await trainFixture(1);
  expect(events[0]!.loss).toBeCloseTo(expected.steps[0]!.loss, 5);
  expectRounded(events[0]!.gradientNorm as number, expected.steps[0]!.gradientNorm);
  const theirs = await readFloats("gradients.safetensors");
  expect(computeMaxDifference((await trainFixture(1, { maxGradNorm: null })).gradients, theirs)).toBeLessThan(1e-5);
  // Clipping multiplies all of them by one factor.
  const factor = expected.settings.clip! / (expected.steps[0]!.gradientNorm + 1e-6);
  expect(
    computeMaxDifference(gradients, new Map([...theirs].map(([name, value]) => [name, value.map((x) => x * factor)]))),
  ).toBeLessThan(1e-5);
  expect(computeMaxDifference(weights, await readFloats("weights-1.safetensors"))).toBeLessThan(1e-5);
});

test("ten AdamW steps have the weights of PyTorch", async () => {
  const { weights, events } = await trainFixture(10);
  for (const [i, { rate, loss, gradientNorm }] of expected.steps.entries()) {
    expect(events[i]).toMatchObject({ step: i + 1, epoch: i });
    expect(events[i]!.learningRate).toBeCloseTo(rate, 10);
    expect(events[i]!.loss).toBeCloseTo(loss, 5);
    // The errors of the weights of earlier steps change the norm, too.
    expectRounded(events[i]!.gradientNorm as number, gradientNorm, 64 * (i + 1));
  }
  expect(computeMaxDifference(weights, await readFloats("weights-10.safetensors"))).toBeLessThan(1e-5);
  // The weights did change.
  expect(computeMaxDifference(weights, await readFloats("weights-1.safetensors"))).toBeGreaterThan(5e-3);
});

test("two accumulated half batches give the update of one batch", async () => {
  const { weights, events, gradients } = await trainFixture(10, { batchSize: 4, gradientAccumulationSteps: 2 });
  expect(events).toHaveLength(10);
  expect(events[0]!.loss).toBeCloseTo(expected.steps[0]!.loss, 5);
  expect(computeMaxDifference(gradients, (await trainFixture(1)).gradients)).toBeLessThan(1e-5);
  expect(computeMaxDifference(weights, await readFloats("weights-10.safetensors"))).toBeLessThan(1e-5);
});
