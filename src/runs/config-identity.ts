import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists } from "../files.js";
import { validate } from "../validate.js";
import { type RunConfig, runConfigSchema } from "./config.js";
import { readYaml } from "./read-config.js";
import { runFiles } from "./run-folder.js";

/** What does not change a run's course may differ. */
const nonIdentityKeys = new Set([
  "device",
  "threads",
  "graph",
  "train.saveTotalLimit",
  "train.saveSteps",
  "train.loggingSteps",
]);

/** A resumed run must be the same run: another learning rate in the middle is another experiment. */
export async function checkSameConfig(folder: string, config: RunConfig): Promise<void> {
  const path = join(folder, runFiles.config);
  if (!(await exists(path))) return;
  const located = await readYaml(path);
  const before = flattenConfig(validate(runConfigSchema, located.value, located.where));
  const changed = [...flattenConfig(config)].filter(
    ([key, value]) => !nonIdentityKeys.has(key) && before.get(key) !== value,
  );
  if (changed.length === 0) return;
  const changes = changed.map(([key, value]) => `${key} was ${before.get(key)}, is ${value}`).join("; ");
  throw new UserError(
    `${folder}: --resume with another config: ${changes}. Give --resume and --out alone to go on as before, or another --out.`,
  );
}

/** All that decides a run's course, as text: two configs with the same are the same run. */
export function computeConfigIdentity(config: RunConfig): string {
  return JSON.stringify(
    [...flattenConfig(config)].filter(([key]) => !nonIdentityKeys.has(key)).sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

/** Every setting under its whole key, as text. */
function flattenConfig({ train, ...rest }: RunConfig): Map<string, string> {
  const inner = Object.entries(train).map(([key, value]): [string, string] => [`train.${key}`, JSON.stringify(value)]);
  return new Map([
    ...Object.entries(rest).map(([key, value]): [string, string] => [key, JSON.stringify(value)]),
    ...inner,
  ]);
}
