import { expect, test } from "vitest";
import { UserError } from "../../src/errors.js";
import { free, tensor } from "../../src/tensor/index.js";
import { halvingRunner } from "../../src/train/halving-runner.js";
import { toHostBatch } from "../../src/train/host-batch.js";
import type { Layer, Run } from "../../src/train/index.js";
import type { Runner } from "../../src/train/runner.js";
import { texts, tinyDataset, tinyModel } from "../methods/tiny.js";

const dataset = tinyDataset(texts);
const batch = toHostBatch(dataset, Int32Array.from([0, 1, 2, 3, 4, 5, 6, 7]), 0, "cpu");

/** A runner whose memory holds batches of so many rows. */
function runnerHolding(rows: number, seen: number[][]): Runner {
  return {
    update(_number, hosts) {
      if (hosts.some((host) => host.padded.rows > rows)) throw new Error("CUDA out of memory. Tried to allocate 2.00 GiB");
      seen.push(hosts.flatMap((host) => [...host.indices]));
      return { names: [String(hosts.length)], values: tensor([0]) };
    },
    dispose() {},
  };
}

function runWith(layers: Partial<Layer>[], notices: string[]): Run {
  return { dataset, model: tinyModel(), device: "cpu", layers, notice: (message: string) => notices.push(message) } as unknown as Run;
}

test("halves a batch until it fits, keeps every example, and says so", () => {
  const [seen, notices]: [number[][], string[]] = [[], []];
  const run = runWith([], notices);
  const runner = halvingRunner(
    run,
    () => runnerHolding(2, seen),
    () => {},
  );
  const first = runner.update(0, [batch]);
  expect(first.names).toEqual(["4"]);
  expect(runner.update(1, [batch]).names).toEqual(["4"]);
  expect(seen).toEqual([
    [0, 1, 2, 3, 4, 5, 6, 7],
    [0, 1, 2, 3, 4, 5, 6, 7],
  ]);
  expect(notices).toHaveLength(2);
  expect(notices[1]).toContain("in 4 parts");
  free([first.values, run.model.weights]);
});

test("a loss over the whole batch is not halved: the error names the sizes and the method", () => {
  const run = runWith([{ name: "rift", wholeBatch: "an example's negatives are the others of its batch" }], []);
  const runner = halvingRunner(
    run,
    () => runnerHolding(2, []),
    () => {},
  );
  expect(() => runner.update(0, [batch])).toThrow(UserError);
  expect(() => runner.update(0, [batch])).toThrow(/8 texts of \d+ tokens, and rift needs them in one batch/);
  free(run.model.weights);
});

test("other errors pass through", () => {
  const failing: Runner = {
    update() {
      throw new Error("shapes cannot be multiplied");
    },
    dispose() {},
  };
  const run = runWith([], []);
  expect(() => halvingRunner(run, () => failing).update(0, [batch])).toThrow("shapes cannot be multiplied");
  free(run.model.weights);
});
