import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { attackNames, attackSpecSchema, checkAttack, loadAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { recipes } from "../../src/attacks/recipes/index.js";
import { temporaryFolder } from "../temporary.js";
import { collect, createExample, scriptedVictim } from "./scripted.js";

const folder = temporaryFolder();

describe("loadAttack", () => {
  test("loads every built-in attack and validates its options", async () => {
    const substitution = ["pwws", "genetic", "greedy", "random", "exhaustive", "ascc"];
    expect(attackNames).toEqual([...substitution, ...recipes.keys()]);
    expect((await loadAttack("genetic", { iterations: 5 })).options).toEqual({ population: 60, iterations: 5 });
  });

  test("rejects unknown attacks and invalid options", async () => {
    await expect(loadAttack("genetik")).rejects.toThrow('did you mean "genetic"?');
    await expect(loadAttack("genetic", { population: 1 })).rejects.toThrow("attack genetic: population: expected");
    await expect(loadAttack("pwws", { speed: 1 })).rejects.toThrow(/speed/);
  });

  test("loads a custom search from a file", async () => {
    const path = join(folder, "first-substitute.mjs");
    writeFileSync(
      path,
      `export default function* (problem) {
        const replacementIndices = new Int16Array(problem.words.length);
        replacementIndices[problem.replacements.findIndex((words) => words.length > 1)] = 1;
        yield [{ replacementIndices }];
        return { replacementIndices };
      }`,
    );
    const attack = await loadAttack(path);
    expect(attack).toMatchObject({ name: "first-substitute", source: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const victim = scriptedVictim(2, (text) => (text === "a c" ? [0.1, 0.9] : [0.9, 0.1]));
    const [result] = await collect(
      new SearchPool(victim).run([createExample("1", [["a"], ["b", "c"]])], attack, { seed: 1 }),
    );
    expect(result).toMatchObject({ outcome: "success", queries: 2 });
  });

  test("rejects a file without a search", async () => {
    const path = join(folder, "nothing.mjs");
    writeFileSync(path, "export const a = 1;");
    await expect(loadAttack(path)).rejects.toThrow("expected a default export that is a search");
    await expect(loadAttack(join(folder, "missing.mjs"))).rejects.toThrow("cannot load the file");
  });

  test("loads a custom definition with options, and names the file when its search fails", async () => {
    const path = join(folder, "failing.mjs");
    writeFileSync(
      path,
      `import { z } from "${import.meta.resolve("zod")}";
      export default {
        options: z.strictObject({ message: z.string() }),
        search: ({ message }) => function* () { throw new Error(message); },
      };`,
    );
    const attack = await loadAttack(path, { message: "no luck" });
    expect(attack).toMatchObject({ name: "failing", hasBudget: false, options: { message: "no luck" } });
    const results = new SearchPool(scriptedVictim(2, () => [0.9, 0.1])).run(
      [createExample("1", [["a", "b"]])],
      attack,
      {
        seed: 1,
      },
    );
    await expect(collect(results)).rejects.toThrow("failing.mjs: the search failed on example 1: no luck");
  });
});

test("checkAttack validates white-box attacks too, and names the source of an option", async () => {
  const locate = (path: readonly PropertyKey[]) => `sweep.yaml:${path.join(".")}`;
  await checkAttack("ascc", { innerSteps: 3 }, locate);
  await expect(checkAttack("ascc", { innerSteps: -1 }, locate)).rejects.toThrow("sweep.yaml:innerSteps: attack ascc");
  await expect(checkAttack("asc", {}, locate)).rejects.toThrow('did you mean "ascc"?');
});

test("attackSpecSchema normalizes names, NAME:key=value and objects", () => {
  expect(["pwws", "genetic:population=20", { name: "greedy" }].map((spec) => attackSpecSchema.parse(spec))).toEqual([
    { name: "pwws", options: {} },
    { name: "genetic", options: { population: 20 } },
    { name: "greedy", options: {} },
  ]);
  expect(attackSpecSchema.safeParse(3).error?.message).toContain("expected an attack");
  expect(attackSpecSchema.safeParse({ name: "greedy", speed: 1 }).error?.message).toContain("speed");
  expect(() => attackSpecSchema.parse("genetic:20")).toThrow("--attack genetic:20: expected NAME:key=value");
});
