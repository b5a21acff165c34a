import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { chooseExtent } from "../extent.js";
import { isLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";
import { bundleRank, runRanks } from "./processes.js";
import { runStack, type StackResult } from "./rank.js";
import { stacks } from "./stacks.js";

const selected = stacks.slice(0, chooseExtent(2, stacks.length));
const names = selected.map(({ name }) => name);

const largestDifference = (a: Record<string, number[]>, b: Record<string, number[]>): number =>
  Math.max(...Object.entries(a).flatMap(([name, values]) => values.map((value, i) => Math.abs(value - b[name]![i]!))));

describe("several processes give the update of one", () => {
  const folder = temporaryFolder();
  let single: Record<string, StackResult>;
  let file: string;

  beforeAll(async () => {
    file = await bundleRank();
    single = {};
    for (const stack of selected) single[stack.name] = await runStack(stack);
  });

  it.each([2, 3].slice(0, chooseExtent(1, 2)))("%i processes", async (size) => {
    const run = (name: string) => runRanks(file, size, names, join(folder, `${size}-${name}.json`));
    const first = await run("first");
    const second = isLong ? await run("second") : first;
    for (const { name } of selected) {
      const [one, many] = [single[name]!, first[name]!];
      expect(Object.keys(many.gradients), name).toEqual(Object.keys(one.gradients));
      expect(largestDifference(one.gradients, many.gradients), `${name}: first gradients`).toBeLessThan(1e-6);
      expect(many.losses.length, name).toBe(one.losses.length);
      for (const [i, loss] of one.losses.slice(0, 20).entries())
        expect(Math.abs(many.losses[i]! - loss), `${name}: loss of step ${i + 1}`).toBeLessThan(1e-5);
      expect(second[name], `${name}: repeated`).toEqual(many);
    }
  });

  it.skipIf(!isLong).each(["rift", "standard", "rose", "standard, accumulated"])(
    "%s: a checkpoint is continued by another number of processes (in make test-long)",
    async (name) => {
      const stack = stacks.find((candidate) => candidate.name === name)!;
      const whole = single[name] ?? (await runStack(stack));
      // The numbers of processes, each for some of the steps.
      const orders = [
        [1, 2],
        [2, 1],
        [2, 3],
        [3, 1, 2],
      ];
      for (const sizes of orders) {
        const runFolder = join(folder, "resumed", name, sizes.join("-"));
        const losses: number[] = [];
        let last: StackResult | undefined;
        for (const [i, size] of sizes.entries()) {
          const part = { folder: runFolder, ...(i + 1 < sizes.length && { stopAfter: 4 * (i + 1) }) };
          mkdirSync(runFolder, { recursive: true });
          last =
            size === 1
              ? await runStack(stack, undefined, part)
              : (await runRanks(file, size, [name], join(runFolder, "result.json"), part))[name]!;
          losses.push(...last.losses);
        }
        expect(losses.length).toBe(whole.losses.length);
        for (const [i, loss] of whole.losses.entries())
          expect(Math.abs(losses[i]! - loss), `${sizes}: loss of step ${i + 1}`).toBeLessThan(1e-5);
        // Biases of keys do not change the loss. Their gradients are rounding errors, which AdamW scales up.
        const weights = Object.entries(whole.weights).filter(([key]) => !key.endsWith("key.bias"));
        const difference = largestDifference(Object.fromEntries(weights), last!.weights);
        expect(difference, `${sizes}: weights`).toBeLessThan(1e-4);
      }
    },
  );
});
