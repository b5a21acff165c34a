import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { chooseExtent } from "../extent.js";
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
  }, 120_000);

  it.each([2, 3].slice(0, chooseExtent(1, 2)))(
    "%i processes",
    async (size) => {
      const run = (name: string) => runRanks(file, size, names, join(folder, `${size}-${name}.json`));
      const first = await run("first");
      const second = chooseExtent(2, 3) >= size ? await run("second") : first;
      for (const { name } of selected) {
        const [one, many] = [single[name]!, first[name]!];
        expect(Object.keys(many.gradients), name).toEqual(Object.keys(one.gradients));
        expect(largestDifference(one.gradients, many.gradients), `${name}: first gradients`).toBeLessThan(1e-6);
        expect(many.losses.length, name).toBe(one.losses.length);
        for (const [i, loss] of one.losses.slice(0, 20).entries())
          expect(Math.abs(many.losses[i]! - loss), `${name}: loss of step ${i + 1}`).toBeLessThan(1e-5);
        expect(second[name], `${name}: repeated`).toEqual(many);
      }
    },
    240_000,
  );
});
