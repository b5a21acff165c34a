import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createMethods } from "../../../src/methods/index.js";
import { free, getMemoryStats } from "../../../src/tensor/index.js";
import { type TrainingJob, train } from "../../../src/train/index.js";
import { temporaryFolder } from "../../temporary.js";
import { trainingFiles } from "../../train/training-files.js";
import { readValues, tinyJob, tinyModel } from "../tiny.js";

const folder = temporaryFolder();
type Event = Readonly<Record<string, number>>;

/** Trains the tiny model, three steps per epoch. */
async function run(
  options: Readonly<Record<string, unknown>>,
  settings: object = {},
  changes: Partial<TrainingJob> = {},
) {
  const model = tinyModel();
  const events: Event[] = [];
  const callbacks = { onEvent: (event: Readonly<Record<string, unknown>>) => void events.push(event as Event) };
  await train(tinyJob(model, createMethods([{ name: "ascc", options }]), { callbacks, ...changes }, settings));
  const weights = readValues(model.weights);
  free(model.weights);
  return { weights, losses: events.map((event) => event["loss.robust"] as number) };
}

it("changes nothing in the first epoch, and starts where it was in the next ones", async () => {
  const tensors = getMemoryStats().tensors;
  const [cold, warm] = [await run({ innerSteps: 2 }), await run({ innerSteps: 2, warmStart: true })];
  expect(warm.losses.slice(0, 3)).toEqual(cold.losses.slice(0, 3));
  expect(warm.losses.slice(3)).not.toEqual(cold.losses.slice(3));
  expect(getMemoryStats().tensors).toBe(tensors);
});

it("finds more with one step per epoch than without", async () => {
  // The model hardly changes, so ten epochs of one step are like ten steps.
  const settings = { epochs: 10, learningRate: 1e-9, dropout: false };
  const sumLastEpoch = async (options: Readonly<Record<string, unknown>>): Promise<number> =>
    (await run(options, settings)).losses.slice(-3).reduce((sum, loss) => sum + loss, 0);
  const [cold, warm] = [await sumLastEpoch({ innerSteps: 1 }), await sumLastEpoch({ innerSteps: 1, warmStart: true })];
  expect(warm).toBeGreaterThan(1.1 * cold);
});

it("is part of a checkpoint", async () => {
  const [options, settings] = [{ innerSteps: 1, warmStart: true }, { saveSteps: 2 }];
  const whole = await run(options, settings, { files: trainingFiles(join(folder, "whole")) });
  await run(options, settings, { files: trainingFiles(join(folder, "cut")), stopAfter: 5 });
  const resumed = await run(options, settings, { files: trainingFiles(join(folder, "cut")), resume: true });
  expect(resumed.weights).toEqual(whole.weights);
  const readEvents = (name: string): string => readFileSync(join(folder, name, "events.jsonl"), "utf8");
  expect(readEvents("cut")).toBe(readEvents("whole"));
});
