import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { attackRequestSchema } from "../../src/actions/attack/attack-request.js";
import { noRepeat } from "../../src/attacks/constraints/words.js";
import { describeAttacks } from "../../src/attacks/describe-attacks.js";
import { attackNames, attackSpecSchema, checkAttack, equipAttack, loadAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { Constraint } from "../../src/attacks/protocol.js";
import { attacks } from "../../src/attacks/recipes/index.js";
import { textfooler } from "../../src/attacks/recipes/textfooler.js";
import type { AttackResources, SentenceEncoder } from "../../src/attacks/resources.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { collect, createExample, createTable, scriptedVictim } from "./scripted.js";
import { writeAttack } from "./write-attack.js";

const folder = temporaryFolder();

describe("loadAttack", () => {
  test("loads every built-in attack by its name, and a value, and validates the options", async () => {
    expect(attackNames).toHaveLength(27);
    for (const name of attackNames) {
      expect((await loadAttack(name)).definition.name).toBe(name);
    }
    const { options } = await loadAttack("genetic:iterations=5");
    expect(options).toEqual({ population: 60, iterations: 5 });
    const value = await loadAttack(textfooler({ target: "positive" }));
    expect(value).toMatchObject({ name: "textfooler", options: { target: "positive", neighbors: 50 } });
  });

  test("constraints that ask a resource come last, in their order", async () => {
    const filter = (name: string): Constraint => ({
      name,
      *filter(candidates) {
        yield* [];
        return candidates;
      },
    });
    const resources = { neighbors: createTable([]), encoder: {} as SentenceEncoder, labels: ["a", "b"] };
    const { recipe } = equipAttack(await loadAttack("textfooler"), resources, [filter("of the request"), noRepeat]);
    const names = recipe.constraints.map(({ name }) => name);
    expect(names.slice(0, 2)).toEqual(["repeat", "repeat"]);
    expect(names.slice(-3)).toEqual([
      "of the request",
      expect.stringContaining("part of speech"),
      expect.stringContaining("similarity of at least"),
    ]);
  });

  test("rejects unknown attacks and invalid options", async () => {
    await expect(loadAttack("genetik")).rejects.toThrow('did you mean "genetic"?');
    await expect(loadAttack("genetic:population=1")).rejects.toThrow("attack genetic: population: expected");
    await expect(loadAttack("pwws:speed=1")).rejects.toThrow(/speed/);
    expect(() => textfooler({ neighbors: 0 })).toThrow("attack textfooler: neighbors: expected");
  });

  test("loads a custom attack from a file", async () => {
    const path = writeAttack(
      join(folder, "last-candidate.mjs"),
      "const texts = yield* expand(problem.original.text, [0, 1]); yield* score([{ text: texts[1] }]); return texts[1];",
    );
    const loaded = await loadAttack(path);
    expect(loaded).toMatchObject({ name: "last-candidate", source: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const victim = scriptedVictim(2, (text) => (text === "c b" ? [0.1, 0.9] : [0.9, 0.1]));
    const run = new SearchPool(victim).run([createExample("1", [["a"], ["b"]])], equipAttack(loaded, {}), {
      seed: 1,
    });
    expect(await collect(run)).toMatchObject([{ outcome: "success", queries: 2 }]);
  });

  test("rejects a file without an attack", async () => {
    const path = join(folder, "nothing.mjs");
    writeFileSync(path, "export const a = 1;");
    await expect(loadAttack(path)).rejects.toThrow("expected a default export of defineAttack");
    await expect(loadAttack(join(folder, "missing.mjs"))).rejects.toThrow("cannot load the file");
  });

  test("names the attack and the example when a search fails", async () => {
    const attack = equipAttack(
      await loadAttack(writeAttack(join(folder, "failing.mjs"), 'throw new Error("no luck");')),
      {},
    );
    const results = new SearchPool(scriptedVictim(2, () => [0.9, 0.1])).run([createExample("1", [["a"]])], attack, {
      seed: 1,
    });
    await expect(collect(results)).rejects.toThrow("attack failing: the search failed on example 1: no luck");
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

test("attacks that use gradients are white-box, and no others", () => {
  const names = describeAttacks().flatMap(({ name, isWhiteBox }) => (isWhiteBox ? [name] : []));
  expect(names.sort()).toEqual(["a2t", "ascc", "hotflip"]);
});

test("the description of an attack follows from its parts and options", () => {
  const { options, build } = attacks.get("random")!;
  const resources = { substitutions: { name: "table" } } as AttackResources;
  const create = (given: object) => build(options.parse(given), resources);
  const { search, cost, transformations } = describeAttacks("random")[0]!;
  const standard = create({});
  expect([search, cost]).toEqual([standard.search.name, standard.search.cost]);
  expect(transformations).toHaveLength(standard.transformations.length);
  expect(create({ samples: 5 }).search.cost).toBe("up to 6");
});

test("a custom attack is described by the path of its file", async () => {
  const path = join(temporaryFolder(), "shout.mjs");
  const parts = "{ goal: { name: 'g' }, transformations: [], constraints: [], search: { name: 's', cost: '1' } }";
  const facts = "name: 'shout', summary: 'in capital letters', paper: 'none', resources: []";
  const schema = pathToFileURL(createRequire(import.meta.url).resolve("zod")).href;
  writeFileSync(
    path,
    `import { z } from "${schema}"; export default { ${facts}, options: z.strictObject({}), build: () => (${parts}) };`,
  );
  const { code, stdout } = await invoke(["attacks", path]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/attack +shout\n.*in capital letters/) });
});

test("the guide lists all keys of an attack request", () => {
  const table = readFileSync("docs/guide/attacks.md", "utf8")
    .split("| what | keys |\n|---|---|\n")[1]!
    .split("\n\n")[0]!;
  const keys = table.split("\n").flatMap((row) => row.split(" | ")[1]!.replace(/ \|$/, "").split(", "));
  expect(keys.sort()).toEqual(Object.keys(attackRequestSchema.shape).sort());
});
