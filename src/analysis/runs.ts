import { basename, join } from "node:path";
import { UserError } from "../errors.js";
import { methods } from "../methods/index.js";
import { loadModel, type Model } from "../models/index.js";
import { methodChoices, type RunConfig, runConfigSchema } from "../runs/config.js";
import { runFiles } from "../runs/folder.js";
import { listRuns } from "../runs/list.js";
import { methodName } from "../runs/names.js";
import { readYaml } from "../runs/read-config.js";
import { type Results, readResults } from "../runs/results.js";
import type { Device } from "../tensor/index.js";
import { validate } from "../validate.js";

/** A finished run as analyses see it. */
export interface AnalysedRun {
  readonly folder: string;
  /** Short, and unlike that of the other runs. */
  readonly label: string;
  readonly method: string;
  readonly config: RunConfig;
  readonly results: Results;
}

/** The finished runs that folders name: a run each, or all those below. */
export async function readFinishedRuns(folders: readonly string[]): Promise<AnalysedRun[]> {
  const runs: Omit<AnalysedRun, "label">[] = [];
  for (const folder of folders) {
    const found = await listRuns(folder);
    const damaged = found.find(({ state }) => state === "damaged");
    if (damaged) throw new UserError(`${damaged.folder}: this run is damaged: ${damaged.failure}`);
    const finished = found.filter(({ state }) => state === "finished");
    if (found.length === 0) throw new UserError(`${folder}: expected a run or a folder of runs (temper train makes them), found none`);
    if (finished.length === 0)
      throw new UserError(`${folder}: no run in it has finished; go on with: temper train --resume --out ${found[0]!.folder}`);
    for (const { folder: inner } of finished) if (!runs.some((run) => run.folder === inner)) runs.push(await readRun(inner));
  }
  return labelled(runs);
}

async function readRun(folder: string): Promise<Omit<AnalysedRun, "label">> {
  const located = await readYaml(join(folder, runFiles.config));
  const config = validate(runConfigSchema, located.value, located.where);
  return { folder, config, method: methodName(config), results: (await readResults(folder)) as Results };
}

/** Runs of the same methods are told apart by the options, seed and settings in which they differ. */
function labelled(runs: readonly Omit<AnalysedRun, "label">[]): AnalysedRun[] {
  const settings = runs.map(({ config }) => settingsOf(config));
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
function settingsOf(config: RunConfig): Record<string, string> {
  const { seed, limit } = config;
  const { learningRate, epochs, batchSize } = config.train;
  const others = { limit, learningRate, epochs, batchSize, seed };
  return Object.fromEntries(Object.entries({ ...methodOptions(config), ...others }).map(([key, value]) => [key, String(value)]));
}

/** The options of a run's methods with their defaults, under METHOD.OPTION. */
function methodOptions(config: RunConfig): Record<string, unknown> {
  return Object.fromEntries(
    methodChoices(config.method).flatMap(({ name, options }) => {
      const resolved = (methods.get(name)?.options.parse(options) ?? {}) as Record<string, unknown>;
      return Object.entries(resolved).map(([key, value]) => [`${name}.${key}`, value]);
    }),
  );
}

/** A run's value of an option: `beta`, `rift.alpha`, or any setting such as train.learningRate; null where it has none. */
export function optionOf({ config, folder }: Pick<AnalysedRun, "config" | "folder">, name: string): string | number | null {
  const options = methodOptions(config);
  const found = Object.keys(options).filter((key) => key === name || key.endsWith(`.${name}`));
  if (found.length > 1) throw new UserError(`${folder}: several of its methods have the option ${name}; name one: ${found.join(", ")}`);
  const settings: Record<string, unknown> = { ...config.train, ...config };
  const value = found.length === 1 ? options[found[0]!] : settings[name.replace(/^train\./, "")];
  return typeof value === "number" || typeof value === "string"
    ? value
    : value === undefined || value === null
      ? null
      : JSON.stringify(value);
}

/** The model that a run made. The caller frees its weights. */
export function loadFinal(run: Pick<AnalysedRun, "folder">, device: Device): Promise<Model> {
  return loadModel(run.folder, { device });
}

/** The model as it was before a run's first update, its new head included. The caller frees its weights. */
export function loadStart({ config }: Pick<AnalysedRun, "config">, labels: readonly string[], device: Device): Promise<Model> {
  const { head, feature, encoding, maxLength, seed } = config;
  return loadModel(config.model, { labels, head, feature, encoding, maxLength, seed, device });
}
