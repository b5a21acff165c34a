import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { free, noGrad, scope, type Tensor } from "../../src/tensor/index.js";
import { toBatch, toHostBatch } from "../../src/train/batch-transfer.js";
import { selectShare, singleRank } from "../../src/train/ranks.js";
import { StepBatch } from "../../src/train/step-batch.js";
import { createTrainingContext } from "../../src/train/training-context.js";
import { chooseExtent } from "../extent.js";
import { readValues } from "../methods/tiny.js";
import { expectComputed } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { bundleRank, runRanks } from "./processes.js";
import { createStackJob, type StackResult } from "./rank.js";
import { type Stack, stacks } from "./stacks.js";

const selected = stacks.slice(0, chooseExtent(4, stacks.length));
const names = selected.map(({ name }) => name);

/** Computes the gradients of the first step in this process: their mean over the shares of all ranks. */
async function expectMeanOfShares(stack: Stack, size: number, { gradients }: StackResult): Promise<void> {
  const job = createStackJob(stack);
  const training = await createTrainingContext(job);
  const batches = training.getEpochBatches(0)[0]!;
  const shares = batches.flatMap((batch, i) => {
    const longest = Math.max(...Array.from(batch, (index) => job.train.items[index]!.encoding.ids.length));
    return Array.from({ length: size }, (_, rank) => ({
      context: { ...training, ranks: { ...singleRank, rank, size } },
      host: toHostBatch(job, selectShare(batch, { rank, size }), { longest }),
      batchIndex: i,
    }));
  });
  const computeMean = (): Record<string, number[]> => {
    const mean = new Map<string, Tensor>();
    for (const { context, host, batchIndex } of shares) {
      const batch = new StepBatch(context, toBatch(job, host), batchIndex);
      const { total } = training.stack.gradients(batch);
      noGrad(() => {
        for (const [name, gradient] of total) {
          const part = gradient.div(shares.length);
          mean.set(name, mean.get(name)?.add(part) ?? part);
        }
      });
    }
    return readValues(mean);
  };
  expectComputed(() => scope(computeMean), gradients, {}, stack.name);
  training.close();
  free(job.model.weights);
}

describe("a data-parallel training", () => {
  const folder = temporaryFolder();
  let file: string;

  beforeAll(async () => {
    file = await bundleRank();
  });

  it.each([2, 3].slice(0, chooseExtent(1, 2)))("of %i processes", async (size) => {
    const ranks = await runRanks(file, size, names, join(folder, `${size}`));
    for (const stack of selected) {
      const [first, ...others] = ranks.map((results) => results[stack.name]!) as [StackResult, ...StackResult[]];
      // The weights, and all that was measured and logged, are the same everywhere, bit by bit.
      for (const other of others) expect(other, stack.name).toEqual(first);
      expect(Object.keys(first.gradients).length, stack.name).toBeGreaterThan(0);
      await expectMeanOfShares(stack, size, first);
    }
  });

  it.each(["standard", "rose", "rift, students"].slice(0, chooseExtent(1, 3)))(
    "of %s continues from its checkpoint as if it had not been stopped",
    async (name) => {
      const [whole] = await runRanks(file, 2, [name], join(folder, `${name} whole`));
      const out = join(folder, name);
      mkdirSync(out);
      const losses: number[] = [];
      let last: StackResult | undefined;
      for (const stopAfter of [4, undefined]) {
        const part = { folder: out, ...(stopAfter && { stopAfter }) };
        last = (await runRanks(file, 2, [name], join(out, "result"), part))[0]![name]!;
        losses.push(...last.losses);
      }
      expect(losses).toEqual(whole![name]!.losses);
      expect(last!.weights).toEqual(whole![name]!.weights);
    },
  );
});
