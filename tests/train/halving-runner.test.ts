import { expect, test } from "vitest";
import { UserError } from "../../src/errors.js";
import { createMethods } from "../../src/methods/index.js";
import { parseSpec } from "../../src/spec.js";
import { free, getMemoryStats, tensor } from "../../src/tensor/index.js";
import { toHostBatch } from "../../src/train/host-batch.js";
import type { TrainingContext, TrainingMethod } from "../../src/train/index.js";
import { oomRetryRunner } from "../../src/train/oom-retry-runner.js";
import { prepareTraining } from "../../src/train/prepare-training.js";
import { eagerRunner, type StepRunner } from "../../src/train/runner.js";
import { texts, tinyDataset, tinyJob, tinyModel, valuesOf } from "../methods/tiny.js";

const dataset = tinyDataset(texts);
const batch = toHostBatch(dataset, Int32Array.from([0, 1, 2, 3, 4, 5, 6, 7]), 0, "cpu");

/** A runner whose memory holds batches of so many rows. */
function runnerHolding(rows: number, seen: number[][]): StepRunner {
  return {
    runStep(_number, hosts) {
      if (hosts.some((host) => host.padded.batchSize > rows))
        throw new Error("CUDA out of memory. Tried to allocate 2.00 GiB");
      seen.push(hosts.flatMap((host) => [...host.indices]));
      return { names: [String(hosts.length)], values: tensor([0]) };
    },
    dispose() {},
  };
}

function runWith(layers: Partial<TrainingMethod>[], notices: string[]): TrainingContext {
  return {
    dataset,
    model: tinyModel(),
    device: "cpu",
    methods: layers,
    warn: (message: string) => notices.push(message),
  } as unknown as TrainingContext;
}

test("halves a batch until it fits, keeps every example, and says so", () => {
  const [seen, notices]: [number[][], string[]] = [[], []];
  const run = runWith([], notices);
  const runner = oomRetryRunner(
    run,
    () => runnerHolding(2, seen),
    () => {},
  );
  const first = runner.runStep(0, [batch]);
  expect(first.names).toEqual(["4"]);
  expect(runner.runStep(1, [batch]).names).toEqual(["4"]);
  expect(seen).toEqual([
    [0, 1, 2, 3, 4, 5, 6, 7],
    [0, 1, 2, 3, 4, 5, 6, 7],
  ]);
  expect(notices).toHaveLength(2);
  expect(notices[1]).toContain("in 4 parts");
  free([first.values, run.model.weights]);
});

test("a loss over the whole batch is not halved: the error names the sizes and the method", () => {
  const run = runWith([{ name: "rift", requiresFullBatch: "an example's negatives are the others of its batch" }], []);
  const runner = oomRetryRunner(
    run,
    () => runnerHolding(2, []),
    () => {},
  );
  expect(() => runner.runStep(0, [batch])).toThrow(UserError);
  expect(() => runner.runStep(0, [batch])).toThrow(/8 texts of \d+ tokens, and rift needs them in one batch/);
  free(run.model.weights);
});

test("memory that ends while the weights change is an error: half an update cannot be done over", async () => {
  const model = tinyModel();
  const training = await prepareTraining(tinyJob(model, [], {}, {}), null);
  const { optimizer } = training.context;
  const failing = Object.assign(Object.create(optimizer) as typeof optimizer, {
    update() {
      throw new Error("CUDA out of memory");
    },
  });
  const opened: number[] = [];
  const runner = oomRetryRunner(
    training.run,
    () => {
      opened.push(1);
      return eagerRunner({ ...training.context, optimizer: failing });
    },
    () => {},
  );
  const host = toHostBatch(training.run.dataset, Int32Array.of(0, 1, 2, 3), 0, "cpu");
  expect(() => runner.runStep(0, [host])).toThrow(/used up while the weights were being changed.*Go on with --resume/);
  expect(opened).toHaveLength(1);
  training.close();
  free(model.weights);
});

test("the passes of one batch end before the next batch of its update begins", async () => {
  const held: number[] = [];
  const watcher: TrainingMethod = {
    name: "watcher",
    losses(_step, next) {
      held.push(getMemoryStats().bytes);
      return next();
    },
  };
  const model = tinyModel();
  const layers = [...createMethods(["ptwd", "rose:variant=first"].map((name) => parseSpec(name, "--method"))), watcher];
  const training = await prepareTraining(tinyJob(model, layers, {}, { gradientAccumulationSteps: 4 }), null);
  training.context.optimizer.setLearningRateFactor(1);
  const host = toHostBatch(training.run.dataset, Int32Array.of(0, 1, 2, 3), 0, "cpu");
  free(training.runner.runStep(0, [host, host, host, host]).values);
  const weights = [...model.weights.values()].reduce((sum, { numel: elements }) => sum + 4 * elements, 0);
  expect(held).toHaveLength(4);
  expect(held[3]! - held[1]!).toBeLessThan(weights / 2);
  training.close();
  free(model.weights);
});

test("other errors pass through", () => {
  const failing: StepRunner = {
    runStep() {
      throw new Error("shapes cannot be multiplied");
    },
    dispose() {},
  };
  const run = runWith([], []);
  expect(() => oomRetryRunner(run, () => failing).runStep(0, [batch])).toThrow("shapes cannot be multiplied");
  free(run.model.weights);
});

test.each(["standard", "ascc", "r-drop", "rose:variant=first,maskInterval=2"])(
  "%s in parts is the update of the whole batch",
  async (name) => {
    const weightsAfter = async (
      holding: number,
    ): Promise<{ values: Record<string, number[]>; losses: number[]; notices: number }> => {
      const model = tinyModel();
      const layers = createMethods(name === "standard" ? [] : [parseSpec(name, "--method")]);
      const training = await prepareTraining(tinyJob(model, layers, {}, { dropout: false }), null);
      const { run, context } = training;
      training.context.optimizer.setLearningRateFactor(0.1);
      const notices: string[] = [];
      const whole = eagerRunner(context);
      const runner = oomRetryRunner(
        { ...run, warn: (message) => notices.push(message) },
        () => ({
          runStep(number, hosts) {
            if (hosts.some((host) => host.padded.batchSize > holding)) throw new Error("CUDA out of memory");
            return whole.runStep(number, hosts);
          },
          dispose() {},
        }),
        () => {},
      );
      const losses: number[] = [];
      for (let update = 0; update < 4; update++) {
        // Seven rows fall into parts of two, two, two and one.
        const { names, values } = runner.runStep(update, [
          toHostBatch(run.dataset, Int32Array.from([0, 1, 2, 3, 4, 5, 6]), 0, "cpu"),
        ]);
        losses.push(values.toFloat32Array()[names.indexOf("loss")]!);
        free(values);
      }
      const values = valuesOf(model.weights);
      training.close();
      free(model.weights);
      return { values, losses, notices: notices.length };
    };
    const [whole, parts] = [await weightsAfter(100), await weightsAfter(2)];
    expect([whole.notices, parts.notices]).toEqual([0, 2]);
    // The adversary starts at random, in every part anew.
    const digits = name === "ascc" ? 2 : 5;
    parts.losses.forEach((loss, i) => {
      expect(loss).toBeCloseTo(whole.losses[i]!, digits);
    });
    if (name === "ascc") return;
    for (const [key, values] of Object.entries(whole.values)) {
      // Attention does not depend on it: its gradient is rounding alone, which Adam makes a step of.
      if (key.endsWith("key.bias")) continue;
      for (const [i, value] of values.entries()) expect(parts.values[key]![i], key).toBeCloseTo(value, 4);
    }
  },
);

test("parts draw from streams of their own, and the next update from others", async () => {
  const model = tinyModel();
  const entered: string[] = [];
  const training = await prepareTraining(tinyJob(model, []), null);
  const runner = eagerRunner({
    ...training.context,
    streams: { enter: (step, names) => entered.push([step, ...names].join(" ")) },
  });
  for (const update of [0, 1]) {
    const parts = [0, 1].map((part) =>
      toHostBatch(training.run.dataset, Int32Array.from([2 * part, 2 * part + 1]), 0, "cpu", part),
    );
    free(runner.runStep(update, parts).values);
  }
  expect(entered).toEqual(["0 clean", "0 clean part 1", "1 clean", "1 clean part 1"]);
  training.close();
  free(model.weights);
});
