import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { UserError } from "../../../src/errors.js";
import { createMethods, methods } from "../../../src/methods/index.js";
import { free, getMemoryStats } from "../../../src/tensor/index.js";
import { toHostBatch } from "../../../src/train/host-batch.js";
import { type TrainingMethod, train } from "../../../src/train/index.js";
import { prepareTraining } from "../../../src/train/prepare-training.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyJob, tinyModel, valuesOf } from "../tiny.js";

const names = [...methods.keys()];
const pairs = names.flatMap((inner) => names.map((outer) => [inner, outer] as const));

/** What the tests' pairs are expected to be refused for; all others compose. */
const refusals: readonly { readonly pair: readonly [string, string]; readonly reason: RegExp }[] = [
  ...pairs.filter(([inner, outer]) => inner === outer).map((pair) => ({ pair, reason: /named twice/ })),
  ...pairs
    .filter(
      ([inner, outer]) =>
        inner !== outer && ["ascc", "smart", "freelb"].includes(inner) && ["ascc", "smart", "freelb"].includes(outer),
    )
    .map((pair) => ({ pair, reason: /cannot go with .*search/ })),
  ...pairs
    .filter(
      ([inner, outer]) =>
        inner !== outer && ["rose", "child-tuning"].includes(inner) && ["rose", "child-tuning"].includes(outer),
    )
    .map((pair) => ({ pair, reason: /cannot go with .*which parameters/ })),
  { pair: ["rose", "freelb"], reason: /write freelb before rose/ },
];

const refusal = (inner: string, outer: string): RegExp | undefined =>
  refusals.find(({ pair }) => pair[0] === inner && pair[1] === outer)?.reason;

/** Cheap options where the defaults are for real models. */
const options: Record<string, Record<string, unknown>> = {
  ascc: { innerSteps: 2 },
  rift: { projectionHiddenSize: 8, projectionSize: 4 },
};

const layersOf = (...chosen: readonly string[]): TrainingMethod[] =>
  createMethods(chosen.map((name) => ({ name, options: options[name] ?? {} })));

const root = temporaryFolder();
// RIFT remembers its teacher here.
vi.stubEnv("TEMPER_CACHE", join(root, "cache"));
const eventsOf = (folder: string): string => readFileSync(join(folder, "events.jsonl"), "utf8");

/** Two updates, at once or with a stop after the first; the events and the weights. */
async function twoUpdates(
  chosen: readonly string[],
  folder: string,
  stop: boolean,
): Promise<{ events: string; weights: object }> {
  const settings = { batchSize: 6, epochs: 1 };
  const run = async (changes: object): Promise<object> => {
    const model = tinyModel();
    try {
      await train(tinyJob(model, layersOf(...chosen), { folder, ...changes }, settings));
      return valuesOf(model.weights);
    } finally {
      free(model.weights);
    }
  };
  if (stop) await run({ maxSteps: 1 });
  return { weights: await run({ resume: stop }), events: eventsOf(folder) };
}

test.each(pairs)("%s under %s", async (inner, outer) => {
  const folder = (name: string): string => join(root, `${inner}-${outer}-${name}`);
  const reason = refusal(inner, outer);
  if (reason) {
    const refused = twoUpdates([inner, outer], folder("refused"), false);
    await expect(refused).rejects.toThrow(reason);
    await expect(refused).rejects.toBeInstanceOf(UserError);
    return;
  }
  const whole = await twoUpdates([inner, outer], folder("whole"), false);
  expect(whole.events.trim().split("\n")).toHaveLength(2);
  expect(await twoUpdates([inner, outer], folder("resumed"), true)).toEqual(whole);
});

test.each(["", ...names, "ascc rift rose", "r-drop rose"])(
  "no tensor stays behind after an update of [%s]",
  async (list) => {
    const model = tinyModel();
    const before = getMemoryStats().tensors;
    const job = tinyJob(model, layersOf(...list.split(" ").filter((name) => name !== "")));
    const training = await prepareTraining(job, null);
    const update = (number: number): void => {
      const hosts = (training.getEpochBatches(0)[number] ?? []).map((indices) =>
        toHostBatch(job.train, indices, 0, "cpu"),
      );
      free(training.runner.runStep(number, hosts).values);
    };
    update(0);
    const after = getMemoryStats().tensors;
    update(1);
    update(2);
    expect(getMemoryStats().tensors).toBe(after);
    training.close();
    expect(getMemoryStats().tensors).toBe(before);
    free(model.weights);
  },
);

test("ROSE over one method and another keeps the gradients of both", async () => {
  // A list of more than two: RIFT's whole stack under ROSE, resumed.
  const chosen = ["ascc", "rift", "r-drop", "rose"];
  const whole = await twoUpdates(chosen, join(root, "four"), false);
  expect(Object.keys(JSON.parse(whole.events.split("\n")[1] ?? "{}"))).toEqual(
    expect.arrayContaining(["loss.task", "loss.robust", "loss.information", "loss.consistency", "rose.kept"]),
  );
  expect(await twoUpdates(chosen, join(root, "four-resumed"), true)).toEqual(whole);
});
