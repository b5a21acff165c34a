import { dirname } from "node:path";
import type { JournalHeader } from "../attacks/journal.js";
import { methodChoices, type RunConfig, runConfigSchema } from "../runs/config.js";
import { commandLine } from "../shell.js";

/** Settings with a flag of their own; `--set` reaches all others. */
const flags: Readonly<Record<string, string>> = {
  model: "--model",
  task: "--task",
  data: "--data",
  label: "--label",
  encoding: "--encoding",
  head: "--head",
  feature: "--feature",
  maxLength: "--max-length",
  limit: "--limit",
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
export function trainCommand(config: RunConfig, folder: string): string {
  const { train, text, method, ...rest } = config;
  const usual = runConfigSchema.parse({ model: config.model });
  const words = ["temper", "train", "--model", config.model];
  const add = (key: string, value: unknown, before: unknown): void => {
    if (JSON.stringify(value) === JSON.stringify(before) || key === "model") return;
    const flag = flags[key];
    if (flag && value !== null) words.push(flag, String(value));
    else words.push("--set", `${key}=${JSON.stringify(value)}`);
  };
  for (const column of text) words.push("--text", column);
  for (const [key, value] of Object.entries(rest)) add(key, value, usual[key as keyof typeof rest]);
  for (const { name, options } of methodChoices(method)) words.push("--method", methodWord(name, options));
  for (const [key, value] of Object.entries(train)) add(`train.${key}`, value, usual.train[key as keyof typeof train]);
  return commandLine([...words, "--out", folder]);
}

function methodWord(name: string, options: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(options).map(([key, value]) => `${key}=${value}`);
  return given.length > 0 ? `${name}:${given.join(",")}` : name;
}

/** The command of an attack, as its journal's header tells it; of its substitutions the header knows the hash only. */
export function attackCommand(
  { attack, options, settings, seed, examples }: JournalHeader,
  model: string,
  journal: string,
  substitutions: string | null,
): string {
  const { task, split, budget } = settings;
  const words = ["temper", "attack", model, "--attack", methodWord(attack, (options ?? {}) as Record<string, unknown>)];
  const given: [string, unknown][] = [
    ["--task", task],
    ["--split", split],
    ["--substitutions", substitutions],
    ["--budget", budget],
    ["--examples", examples],
    ["--seed", seed],
  ];
  const flagged = given.flatMap(([flag, value]) => (typeof value === "string" || typeof value === "number" ? [flag, String(value)] : []));
  return commandLine([...words, ...flagged, "--out", dirname(journal)]);
}
