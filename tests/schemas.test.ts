import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { runConfigSchema } from "../src/settings/config.js";
import { sweepSettingsSchema } from "../src/sweeps/schema.js";

// A sweep file has the settings of its runs, too. Profiles change any of them.
const sweepSchema = sweepSettingsSchema.extend({
  ...runConfigSchema.partial().shape,
  profiles: z.record(z.string(), z.record(z.string(), z.unknown())).optional(),
});

const schemas = {
  run: { title: "A run of temper train", schema: runConfigSchema },
  sweep: { title: "A sweep of temper sweep", schema: sweepSchema },
} as const;

type JsonSchema = { readonly properties: Record<string, unknown>; readonly additionalProperties: unknown };

function createSchema(name: keyof typeof schemas): JsonSchema {
  const { title, schema } = schemas[name];
  return { title, ...z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) } as never;
}

test.each(["run", "sweep"] as const)(
  "schemas/%s.schema.json is generated from zod (vitest -u writes it)",
  async (name) => {
    const text = `${JSON.stringify(createSchema(name), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot(`../schemas/${name}.schema.json`);
  },
);

test("every key of the experiments is in the schema of sweeps", () => {
  const { properties, additionalProperties } = createSchema("sweep");
  expect(additionalProperties).toBe(false);
  const files = readdirSync("experiments").filter((name) => name.endsWith(".yaml") && name !== "published.yaml");
  expect(files.length).toBeGreaterThan(10);
  for (const file of files) {
    const keys = Object.keys(parse(readFileSync(join("experiments", file), "utf8")));
    expect(
      keys.filter((key) => !(key in properties)),
      file,
    ).toEqual([]);
  }
});
