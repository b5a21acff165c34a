// The end of `npm run build`: makes the command executable, and writes the JSON Schemas of run and sweep files, with which
// editors complete their keys.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { runConfigSchema } from "../dist/settings/config.js";
import { sweepSettingsSchema } from "../dist/sweeps/schema.js";

const root = resolve(import.meta.dirname, "..");
chmodSync(join(root, "dist/cli/main.js"), 0o755);

// A sweep file has the settings of its runs, too. Profiles change any of them.
const profiles = z.record(z.string(), z.record(z.string(), z.unknown())).optional();
const sweepSchema = sweepSettingsSchema.extend({ ...runConfigSchema.partial().shape, profiles });

const folder = join(root, "schemas");
mkdirSync(folder, { recursive: true });
for (const [name, title, schema] of /** @type {const} */ ([
  ["run", "A run of temper train", runConfigSchema],
  ["sweep", "A sweep of temper sweep", sweepSchema],
])) {
  // Editors show only the description of a key.
  const override = (/** @type {{ jsonSchema: Record<string, unknown> }} */ { jsonSchema }) => {
    if (jsonSchema.whenNull !== undefined) jsonSchema.description += `; null: ${jsonSchema.whenNull}`;
    delete jsonSchema.whenNull;
  };
  const json = { title, ...z.toJSONSchema(schema, { io: "input", unrepresentable: "any", override }) };
  writeFileSync(join(folder, `${name}.schema.json`), `${JSON.stringify(json, null, 2)}\n`);
}
