import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { attackRequestSchema } from "../../src/actions/attack/attack-request.js";
import { describeAttacks } from "../../src/attacks/describe-attacks.js";
import { attacks } from "../../src/attacks/recipes/index.js";
import type { AttackResources } from "../../src/attacks/resources.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";

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
