import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { runConfigSchema } from "../src/settings/config.js";

interface JsonSchema {
  readonly properties: Record<string, unknown>;
  readonly additionalProperties: unknown;
}

/** Reads a schema that the build wrote. */
const readSchema = (name: "run" | "sweep"): JsonSchema =>
  JSON.parse(readFileSync(`schemas/${name}.schema.json`, "utf8"));

test("the schemas of the build have every key of a run", () => {
  for (const name of ["run", "sweep"] as const)
    expect(Object.keys(readSchema(name).properties)).toEqual(
      expect.arrayContaining(Object.keys(runConfigSchema.shape)),
    );
});

test("every key of the experiments is in the schema of sweeps", () => {
  const { properties, additionalProperties } = readSchema("sweep");
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
