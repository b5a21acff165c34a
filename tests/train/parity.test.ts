import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listen } from "../../src/base/events.js";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { cpuFloat32, loadModel } from "../../src/models/index.js";
import type { Task } from "../../src/tasks/task.js";
import { free } from "../../src/tensor/index.js";
import { type TrainingMethod, toDataset, train, trainSettingsSchema } from "../../src/train/index.js";
import { computeDistance, expectClose, expectComputedAsync } from "../rounding.js";

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
    ...listen({ log: ({ entry }) => events.push(entry) }),
    stopAfter,
  });
  const weights = new Map([...model.weights].map(([name, tensor]) => [name, tensor.toFloat32Array()]));
  free(model.weights);
  return { weights, events, gradients };
}

type Lists = Record<string, ArrayLike<number>>;

/** The gradients of the first step, the weights after the last one, and losses and norms of all, by name. */
async function trainToLists(stopAfter: number, changes?: Parameters<typeof trainFixture>[1]): Promise<Lists> {
  const { weights, events, gradients } = await trainFixture(stopAfter, changes);
  const read = (key: string): number[] => events.map((event) => event[key] as number);
  return {
    ...nameLists("weights", weights),
    ...nameLists("gradients", gradients),
    loss: read("loss"),
    gradientNorm: read("gradientNorm"),
  };
}

function nameLists(group: string, lists: ReadonlyMap<string, Float32Array>): Lists {
  return Object.fromEntries([...lists].map(([name, list]) => [`${group} ${name}`, list]));
}

const readSteps = (key: "rate" | "loss" | "gradientNorm", count: number): number[] =>
  expected.steps.slice(0, count).map((step) => step[key]);

test("one step has the loss, gradients and weights of PyTorch", async () => {
  const gradients = await readFloats("gradients.safetensors");
  // Clipping multiplies all of them by one factor.
  const factor = expected.settings.clip! / (expected.steps[0]!.gradientNorm + 1e-6);
  const clipped = new Map([...gradients].map(([name, values]) => [name, values.map((x) => x * factor)]));
  const weights = nameLists("weights", await readFloats("weights-1.safetensors"));
  const [loss, gradientNorm] = [readSteps("loss", 1), readSteps("gradientNorm", 1)];
  const wanted = { loss, gradientNorm, ...nameLists("gradients", clipped), ...weights };
  await expectComputedAsync(() => trainToLists(1), wanted);
  await expectComputedAsync(() => trainToLists(1, { maxGradNorm: null }), nameLists("gradients", gradients));
});

test("ten AdamW steps have the weights of PyTorch", async () => {
  const weights = nameLists("weights", await readFloats("weights-10.safetensors"));
  const [loss, gradientNorm] = [readSteps("loss", 10), readSteps("gradientNorm", 10)];
  await expectComputedAsync(() => trainToLists(10), { loss, gradientNorm, ...weights });
  const { events } = await trainFixture(10);
  expect(events).toMatchObject(expected.steps.map((_, i) => ({ step: i + 1, epoch: i })));
  const learningRate = events.map((event) => event.learningRate as number);
  expectClose(learningRate, readSteps("rate", 10), { format: "float64" });
  // The weights did change.
  const before = nameLists("weights", await readFloats("weights-1.safetensors"));
  const moved = Object.entries(weights).map(([name, values]) => computeDistance(values, before[name]!));
  expect(Math.max(...moved)).toBeGreaterThan(5e-3);
});

test("two accumulated half batches give the update of one batch", async () => {
  const weights = nameLists("weights", await readFloats("weights-10.safetensors"));
  const gradients = nameLists("gradients", (await trainFixture(1)).gradients);
  const halves = { batchSize: 4, gradientAccumulationSteps: 2 };
  // AdamW and clipping hide a factor of the gradients, but their norm shows it.
  const [loss, gradientNorm] = [readSteps("loss", 10), readSteps("gradientNorm", 10)];
  const wanted = { ...weights, ...gradients, loss, gradientNorm };
  await expectComputedAsync(() => trainToLists(10, halves), wanted);
});
