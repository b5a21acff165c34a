import { formatCommandLine, toFlag } from "../../base/shell.js";
import { formatSpec } from "../../base/spec.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { runConfigSchema } from "../../settings/config.js";

export type Settings = Readonly<Record<string, unknown>>;

/** Settings of `temper train` without a flag of their own. `--set` reaches them. */
export const unusualSettings = ["headInit", "maxValidationSamples", "maxTestSamples", "train", "cudaGraphs"] as const;
const trainFlags = ["train.epochs", "train.batchSize", "train.learningRate", "train.saveTotalLimit"];

function hasFlag(key: string): boolean {
  return key.startsWith("train.") ? trainFlags.includes(key) : !unusualSettings.some((unusual) => unusual === key);
}

export function formatTrainCommand({ config, folder }: Pick<RunFolder, "config" | "folder">): string {
  const { model, train, textColumn, methods, ...rest } = config;
  const defaults = runConfigSchema.parse({ model });
  const format = (key: string, value: unknown): string[] =>
    hasFlag(key) && ["string", "number"].includes(typeof value)
      ? [toFlag(key), String(value)]
      : ["--set", `${key}=${JSON.stringify(value)}`];
  return formatCommandLine([
    ...["temper", "train", "--model", model],
    ...textColumn.flatMap((column) => ["--text-column", column]),
    ...listChanges(rest, defaults).flatMap(([key, value]) => format(key, value)),
    ...methods.flatMap((spec) => ["--method", formatSpec(spec)]),
    ...listChanges(train, defaults.train).flatMap(([key, value]) => format(`train.${key}`, value)),
    ...["--out", folder],
  ]);
}

export function listChanges(settings: Settings, defaults: object): [string, unknown][] {
  return Object.entries(settings).filter(
    ([key, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify((defaults as Settings)[key]),
  );
}
