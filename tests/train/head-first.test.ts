import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createMethods, type MethodSpec } from "../../src/methods/index.js";
import { isHeadParameter } from "../../src/models/index.js";
import { free } from "../../src/tensor/index.js";
import { benchmarkSteps, train } from "../../src/train/index.js";
import { readValues, tinyJob, tinyModel } from "../methods/tiny.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { trainingFiles } from "./training-files.js";

const root = temporaryFolder();
const learningRate = 1e-3;

type Values = Record<string, number[]>;

/** Trains six steps, the first three on the head alone. Returns the weights and the events. */
async function trainHeadFirst(
  name: string,
  changes: object = {},
  specs: readonly MethodSpec[] = [],
  settings: object = {},
): Promise<{ weights: Values; events: Record<string, number>[] }> {
  const model = tinyModel();
  const files = trainingFiles(join(root, name));
  const all = { headFirst: 3, learningRate, ...settings };
  try {
    await train(tinyJob(model, createMethods(specs), { files, ...changes }, all));
    const lines = readFileSync(files.events, "utf8").trim().split("\n");
    return { weights: readValues(model.weights), events: lines.map((line) => JSON.parse(line)) };
  } finally {
    free(model.weights);
  }
}

/** The parameters that differ, and the largest difference of an element. */
function compare(before: Values, after: Values): { moved: string[]; largest: number } {
  const moved = Object.keys(before).filter((name) => String(before[name]) !== String(after[name]));
  const differences = moved.flatMap((name) => before[name]!.map((value, i) => Math.abs(value - after[name]![i]!)));
  return { moved, largest: Math.max(0, ...differences) };
}

test("train.headFirst trains the head alone, then everything with a new optimizer and the complete schedule", async () => {
  const pretrained = readValues(tinyModel().weights);
  const plain = { weightDecay: 0 };
  const head = await trainHeadFirst("head", { stopAfter: 3 }, [], plain);
  const heads = Object.keys(pretrained).filter(isHeadParameter);
  expect(compare(pretrained, head.weights).moved).toEqual(heads);
  const first = await trainHeadFirst("first", { stopAfter: 4 }, [], plain);
  const { moved, largest } = compare(head.weights, first.weights);
  expect(moved.length).toBeGreaterThan(heads.length);
  // The first step of Adam moves an element by at most the learning rate. With the step count of
  // the head, it would be three times as much.
  expect(largest).toBeLessThan(1.01 * learningRate);
  expect(largest).toBeGreaterThan(0.9 * learningRate);
  const { events } = await trainHeadFirst("whole");
  const factors = events.map((event) => event.learningRate! / learningRate);
  expect(factors.map((factor) => Math.round(factor * 1000) / 1000)).toEqual([1, 1, 1, 1, 0.667, 0.333]);
});

test("methods begin after the head", async () => {
  const { events } = await trainHeadFirst("rose", {}, [{ name: "rose", options: {} }]);
  expect(events.map((event) => "rose.updateRatio" in event)).toEqual([false, false, false, true, true, true]);
});

test.each([2, 3, 4])("a run that stops after step %i continues bitwise", async (stopAfter) => {
  const specs = [{ name: "smart", options: {} }];
  const whole = await trainHeadFirst(`whole-${stopAfter}`, {}, specs);
  await trainHeadFirst(`stopped-${stopAfter}`, { stopAfter }, specs);
  expect(await trainHeadFirst(`stopped-${stopAfter}`, { resume: true }, specs)).toEqual(whole);
});

test("train.headFirst 0 is standard fine-tuning, bitwise", async () => {
  const { weights, events } = await trainHeadFirst("off", {}, [], { headFirst: 0 });
  expectClose(events[1]!.learningRate! / learningRate, 5 / 6, { format: "float64" });
  const model = tinyModel();
  const pretrained = readValues(model.weights);
  await train(tinyJob(model, [], {}, { learningRate }));
  expect(weights).toEqual(readValues(model.weights));
  expect(compare(pretrained, weights).moved).toEqual(Object.keys(pretrained));
  free(model.weights);
});

test("as many steps as the run has are rejected, also by an estimate", async () => {
  const message = "train.headFirst: expected fewer than the 6 optimizer steps of this run, received 6";
  await expect(trainHeadFirst("none-left", {}, [], { headFirst: 6 })).rejects.toThrow(message);
  const model = tinyModel();
  await expect(benchmarkSteps(tinyJob(model, [], {}, { headFirst: 6 }), { stepsPerEpoch: 3 })).rejects.toThrow(message);
  free(model.weights);
});
