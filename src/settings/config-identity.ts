import { UserError } from "../base/errors.js";
import type { RunConfig } from "./config.js";

type Settings = Pick<RunConfig, "train">;

/** Settings that do not change the result of a run. */
const nonIdentityKeys = new Set([
  "device",
  "threads",
  "cudaGraphs",
  "tags",
  "train.saveStrategy",
  "train.saveTotalLimit",
  "train.keepOptimizerState",
  "train.saveSteps",
  "train.loggingSteps",
]);

/**
 * Rejects a resumed run whose settings changed: another learning rate halfway is another
 * experiment.
 */
export function checkSameConfig<T extends Settings>(folder: string, before: T, now: T): void {
  const old = flattenConfig(before);
  const changed = [...flattenConfig(now)].filter(([key, value]) => old.get(key) !== value);
  if (changed.length === 0) return;
  const changes = changed.map(([key, value]) => `${key} was ${old.get(key)}, is ${value}`).join("; ");
  throw new UserError(
    `${folder}: --resume with different settings: ${changes}. ` +
      "Pass only --resume and --out to continue as before, or choose a different --out.",
  );
}

/** Everything that decides a run's result, as text: equal texts are the same run. */
export function formatConfigIdentity(config: RunConfig): string {
  return JSON.stringify([...flattenConfig(config)].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Every setting that decides the result under its full key, as text. */
export function flattenConfig({ train, ...rest }: Settings): Map<string, string> {
  const inner = Object.entries(train).map(([key, value]): [string, unknown] => [`train.${key}`, value]);
  const all = [...Object.entries(rest), ...inner].filter(([key]) => !nonIdentityKeys.has(key));
  return new Map(all.map(([key, value]) => [key, JSON.stringify(value)]));
}
