import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { attackNames, loadAttack } from "../../src/attacks/index.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { temporaryFolder } from "../temporary.js";
import { collect, scriptedVictim, targetOfChoices } from "./scripted.js";

const folder = temporaryFolder();

describe("attacks by name", () => {
  test("are all there, with their options resolved", async () => {
    expect(attackNames).toEqual(["pwws", "genetic", "greedy", "random", "exhaustive", "ascc"]);
    expect((await loadAttack("genetic", { iterations: 5 })).options).toEqual({ population: 60, iterations: 5 });
  });

  test("that do not exist, or have options that do not, are refused", async () => {
    await expect(loadAttack("genetik")).rejects.toThrow('did you mean "genetic"?');
    await expect(loadAttack("genetic", { population: 1 })).rejects.toThrow("attack genetic: population: expected");
    await expect(loadAttack("pwws", { speed: 1 })).rejects.toThrow(/speed/);
  });

  test("can be one file of the user's", async () => {
    const path = join(folder, "first-swap.mjs");
    writeFileSync(
      path,
      `export default function* (problem) {
        const picks = new Int16Array(problem.words.length);
        picks[problem.choices.findIndex((slots) => slots.length > 1)] = 1;
        yield [{ picks }];
        return { picks };
      }`,
    );
    const attack = await loadAttack(path);
    expect(attack).toMatchObject({ name: "first-swap", source: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const victim = scriptedVictim(2, (text) => (text === "a c" ? [0.1, 0.9] : [0.9, 0.1]));
    const [result] = await collect(
      new SearchPool(victim).run([targetOfChoices("1", [["a"], ["b", "c"]])], attack, { seed: 1 }),
    );
    expect(result).toMatchObject({ outcome: "success", queries: 2 });
  });

  test("from a file that is no search are refused", async () => {
    const path = join(folder, "nothing.mjs");
    writeFileSync(path, "export const a = 1;");
    await expect(loadAttack(path)).rejects.toThrow("expected a default export that is a search");
    await expect(loadAttack(join(folder, "missing.mjs"))).rejects.toThrow("cannot load it");
  });
});
