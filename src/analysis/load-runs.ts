import { basename, join } from "node:path";
import { UserError } from "../errors.js";
import { methods } from "../methods/index.js";
import { loadModel, type Model } from "../models/index.js";
import { type RunConfig, runConfigSchema, toMethodSpecs } from "../runs/config.js";
import { listRuns } from "../runs/list-runs.js";
import { getMethodName } from "../runs/names.js";
import { readYaml } from "../runs/read-config.js";
import { type Results, readResults } from "../runs/results.js";
import { runFiles } from "../runs/run-folder.js";
import type { Device } from "../tensor/index.js";
import { validate } from "../validate.js";

/** A finished run as analyses see it. */
export interface AnalyzedRun {
  readonly folder: string;
  /** Short, and unlike that of the other runs. */
  readonly label: string;
  readonly method: string;
  readonly config: RunConfig;
  readonly results: Results;
}

/** The finished runs that folders name: a run each, or all those below. */
export async function readFinishedRuns(folders: readonly string[]): Promise<AnalyzedRun[]> {
  const runs: Omit<AnalyzedRun, "label">[] = [];
  for (const folder of folders) {
    const found = await listRuns(folder);
    const damaged = found.find(({ state }) => state === "damaged");
    if (damaged) throw new UserError(`${damaged.folder}: this run is damaged: ${damaged.failure}`);
    const finished = found.filter(({ state }) => state === "finished");
    if (found.length === 0)
      throw new UserError(`${folder}: expected a run or a folder of runs (temper train makes them), found none`);
    if (finished.length === 0)
      throw new UserError(
        `${folder}: no run in it has finished; go on with: temper train --resume --out ${found[0]!.folder}`,
      );
    for (const { folder: inner } of finished)
      if (!runs.some((run) => run.folder === inner)) runs.push(await readFinishedRun(inner));
  }
  return labelRuns(runs);
}

async function readFinishedRun(folder: string): Promise<Omit<AnalyzedRun, "label">> {
  const located = await readYaml(join(folder, runFiles.config));
  const config = validate(runConfigSchema, located.value, located.where);
  return { folder, config, method: getMethodName(config), results: (await readResults(folder)) as Results };
}

/** Runs of the same methods are told apart by the options, seed and settings in which they differ. */
function labelRuns(runs: readonly Omit<AnalyzedRun, "label">[]): AnalyzedRun[] {
  const settings = runs.map(({ config }) => getVariedSettings(config));
  const labels = runs.map(({ method }, i) => {
    const rivals = settings.filter((_, j) => runs[j]!.method === method);
    const telling = Object.keys(settings[i]!).filter((key) => rivals.some((rival) => rival[key] !== settings[i]![key]));
    return [method, ...telling.map((key) => `${key.replace(/^.*\./, "")} ${settings[i]![key]}`)].join(" ");
  });
  return runs.map((run, i) => ({
    ...run,
    label: labels.filter((label) => label === labels[i]).length > 1 ? basename(run.folder) : labels[i]!,
  }));
}

/** The settings that experiments vary, as text: methods' options with their defaults, and a few others. */
function getVariedSettings(config: RunConfig): Record<string, string> {
  const { seed, maxTrainSamples } = config;
  const { learningRate, epochs, batchSize } = config.train;
  const others = { maxTrainSamples, learningRate, epochs, batchSize, seed };
  return Object.fromEntries(
    Object.entries({ ...resolveMethodOptions(config), ...others }).map(([key, value]) => [key, String(value)]),
  );
}

/** The options of a run's methods with their defaults, under METHOD.OPTION. */
function resolveMethodOptions(config: RunConfig): Record<string, unknown> {
  return Object.fromEntries(
    toMethodSpecs(config.methods).flatMap(({ name, options }) => {
      const resolved = (methods.get(name)?.options.parse(options) ?? {}) as Record<string, unknown>;
      return Object.entries(resolved).map(([key, value]) => [`${name}.${key}`, value]);
    }),
  );
}

/** A run's value of an option: `beta`, `rift.alpha`, or any setting such as train.learningRate; null where it has none. */
export function getOption(
  { config, folder }: Pick<AnalyzedRun, "config" | "folder">,
  name: string,
): string | number | null {
  const options = resolveMethodOptions(config);
  const found = Object.keys(options).filter((key) => key === name || key.endsWith(`.${name}`));
  if (found.length > 1)
    throw new UserError(`${folder}: several of its methods have the option ${name}; name one: ${found.join(", ")}`);
  const settings: Record<string, unknown> = { ...config.train, ...config };
  const value = found.length === 1 ? options[found[0]!] : settings[name.replace(/^train\./, "")];
  return typeof value === "number" || typeof value === "string"
    ? value
    : value === undefined || value === null
      ? null
      : JSON.stringify(value);
}

/** The model that a run made. The caller frees its weights. */
export function loadFineTunedModel(run: Pick<AnalyzedRun, "folder">, device: Device): Promise<Model> {
  return loadModel(run.folder, { device });
}

/** The model as it was before a run's first update, its new head included. The caller frees its weights. */
export function loadInitialModel(
  { config }: Pick<AnalyzedRun, "config">,
  labels: readonly string[],
  device: Device,
): Promise<Model> {
  const { head, pooling: feature, tokenization: encoding, maxLength, seed } = config;
  return loadModel(config.model, { labels, head, pooling: feature, tokenization: encoding, maxLength, seed, device });
}
