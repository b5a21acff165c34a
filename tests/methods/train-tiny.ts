import { join } from "node:path";
import { expect } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { free } from "../../src/tensor/index.js";
import { type TrainingJob, type TrainingMethod, train } from "../../src/train/index.js";
import { trainingFiles } from "../train/training-files.js";
import { readValues, tinyJob, tinyModel } from "./tiny.js";

/** A method, or the name and the options of one. */
export type TinyMethod = TrainingMethod | readonly [name: string, options?: Record<string, unknown>];

export interface TinyRun {
  readonly weights: Record<string, number[]>;
  readonly events: Record<string, unknown>[];
}

/** Trains the tiny model: six steps by default, with dropout, weight decay and clipping. */
export async function trainTiny(
  methods: readonly TinyMethod[],
  settings: object = {},
  changes: Partial<TrainingJob> = {},
): Promise<TinyRun> {
  const model = tinyModel();
  const events: Record<string, unknown>[] = [];
  try {
    const created = methods.flatMap((method) =>
      "name" in method ? [method] : createMethods([{ name: method[0], options: method[1] ?? {} }]),
    );
    const job = tinyJob(model, created, changes, settings);
    const onEvent: TrainingJob["onEvent"] = (event) => {
      if (event.type === "log") events.push(event.entry);
      changes.onEvent?.(event);
    };
    await train({ ...job, onEvent });
    return { weights: readValues(model.weights), events };
  } finally {
    free(model.weights);
  }
}

/** Expects that a run that stops after a step and continues gives the same weights. Returns the folders of both. */
export async function expectResumed(
  folder: string,
  methods: readonly TinyMethod[],
  stopAfter: number,
  settings: object = {},
): Promise<{ readonly whole: TinyRun; readonly folders: readonly [whole: string, stopped: string] }> {
  const folders = [join(folder, `whole-${stopAfter}`), join(folder, `stopped-${stopAfter}`)] as const;
  const run = (out: string, changes: Partial<TrainingJob>): Promise<TinyRun> =>
    trainTiny(methods, settings, { files: trainingFiles(out), ...changes });
  const whole = await run(folders[0], {});
  await run(folders[1], { stopAfter });
  expect((await run(folders[1], { resume: true })).weights).toEqual(whole.weights);
  return { whole, folders };
}
