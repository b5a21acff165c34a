import { dirname } from "node:path";
import type { JournalHeader } from "../attacks/journal.js";
import { type RunConfig, runConfigSchema, toMethodSpecs } from "../runs/config.js";
import { formatCommandLine } from "../shell.js";

/** Settings with a flag of their own; `--set` reaches all others. */
const flags: Readonly<Record<string, string>> = {
  model: "--model",
  task: "--task",
  data: "--data",
  label: "--label-column",
  tokenization: "--tokenization",
  head: "--head",
  feature: "--pooling",
  maxLength: "--max-length",
  limit: "--max-train-samples",
  substitutions: "--substitutions",
  seed: "--seed",
  device: "--device",
  precision: "--precision",
  threads: "--threads",
  "train.epochs": "--epochs",
  "train.batchSize": "--batch-size",
  "train.learningRate": "--learning-rate",
};

/** The command that makes a run again: every setting that is not the default. */
export function formatTrainCommand(config: RunConfig, folder: string): string {
  const { train, textColumn: text, methods: method, ...rest } = config;
  const defaults = runConfigSchema.parse({ model: config.model });
  const words = ["temper", "train", "--model", config.model];
  const add = (key: string, value: unknown, before: unknown): void => {
    if (JSON.stringify(value) === JSON.stringify(before) || key === "model") return;
    const flag = flags[key];
    if (flag && value !== null) words.push(flag, String(value));
    else words.push("--set", `${key}=${JSON.stringify(value)}`);
  };
  for (const column of text) words.push("--text-column", column);
  for (const [key, value] of Object.entries(rest)) add(key, value, defaults[key as keyof typeof rest]);
  for (const { name, options } of toMethodSpecs(method)) words.push("--method", formatMethodSpec(name, options));
  for (const [key, value] of Object.entries(train))
    add(`train.${key}`, value, defaults.train[key as keyof typeof train]);
  return formatCommandLine([...words, "--out", folder]);
}

function formatMethodSpec(name: string, options: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(options).map(([key, value]) => `${key}=${value}`);
  return given.length > 0 ? `${name}:${given.join(",")}` : name;
}

/** The command of an attack, as its journal's header tells it; of its substitutions the header knows the hash only. */
export function formatAttackCommand(
  { attack, options, settings, seed, examples }: JournalHeader,
  model: string,
  journal: string,
  substitutions: string | null,
): string {
  const { task, split, budget } = settings;
  const words = [
    "temper",
    "attack",
    model,
    "--attack",
    formatMethodSpec(attack, (options ?? {}) as Record<string, unknown>),
  ];
  const given: [string, unknown][] = [
    ["--task", task],
    ["--split", split],
    ["--substitutions", substitutions],
    ["--query-budget", budget],
    ["--num-examples", examples],
    ["--seed", seed],
  ];
  const flagged = given.flatMap(([flag, value]) =>
    typeof value === "string" || typeof value === "number" ? [flag, String(value)] : [],
  );
  return formatCommandLine([...words, ...flagged, "--out", dirname(journal)]);
}
