import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists } from "../files.js";
import { validate } from "../validate.js";
import { type RunConfig, runConfigSchema } from "./config.js";
import { runFiles } from "./folder.js";
import { readYaml } from "./read-config.js";

/** What does not change a run's course may differ. */
const free = new Set(["device", "threads", "graph", "train.keepCheckpoints", "train.checkpointEvery", "train.logEvery"]);

/** A resumed run must be the same run: another learning rate in the middle is another experiment. */
export async function checkSameConfig(folder: string, config: RunConfig): Promise<void> {
  const path = join(folder, runFiles.config);
  if (!(await exists(path))) return;
  const located = await readYaml(path);
  const before = flat(validate(runConfigSchema, located.value, located.where));
  const changed = [...flat(config)].filter(([key, value]) => !free.has(key) && before.get(key) !== value);
  if (changed.length === 0) return;
  const changes = changed.map(([key, value]) => `${key} was ${before.get(key)}, is ${value}`).join("; ");
  throw new UserError(
    `${folder}: --resume with another config: ${changes}. Give --resume and --out alone to go on as before, or another --out.`,
  );
}

/** All that decides a run's course, as text: two configs with the same are the same run. */
export function identityOf(config: RunConfig): string {
  return JSON.stringify([...flat(config)].filter(([key]) => !free.has(key)).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Every setting under its whole key, as text. */
function flat({ train, ...rest }: RunConfig): Map<string, string> {
  const inner = Object.entries(train).map(([key, value]): [string, string] => [`train.${key}`, JSON.stringify(value)]);
  return new Map([...Object.entries(rest).map(([key, value]): [string, string] => [key, JSON.stringify(value)]), ...inner]);
}
