import { existsSync, lstatSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { stringify } from "yaml";
import { exists, listSubfolders } from "../base/files.js";
import { dataFile, formatMethodNames, type RunConfig } from "../settings/config.js";
import { formatDataName } from "../tasks/custom-task.js";
import { CheckpointStore } from "../train/checkpoint.js";

/**
 * The files and folders of a run folder. Other files use the keys, so the names are known only
 * here.
 */
export const files = {
  config: "config.yaml",
  data: dataFile,
  environment: "environment.json",
  status: "status.json",
  events: "events.jsonl",
  timings: "timings.jsonl",
  checkpoints: "checkpoints",
  model: "model",
  adapter: "adapter",
  results: "results.json",
  advglue: "advglue.json",
  attacks: "attacks",
  certificates: "certificates",
  calibration: "calibration.json",
  exact: "exact",
  exactResult: "exact.json",
  analysis: "analysis",
  requests: "requests",
  log: "log.txt",
  lock: "run.lock",
} as const;

/** The examples of a resumed run, until they are compared with those that it started with. */
export const freshDataFile = `.${files.data}.fresh`;

/** Beside the two models of `harden`: what their folder was started with. */
export const hardenFile = "harden.json";

export type RunFile = keyof typeof files;

/** Depth of the search for runs: runs/TASK/METHOD/seed0. */
const maxSearchDepth = 3;
/** Folders that are looked at together, so that the first runs are known before the last ones. */
const foldersPerLook = 16;

/** The path of one of the files of a run folder, whether the run has started or not. */
export function getRunPath(folder: string, file: RunFile): string {
  return join(folder, files[file]);
}

/**
 * The file that tells an exported model which run it is from: its task, data and substitutions.
 * The folder is still no run, because it has no environment.
 */
export function createConfigFile(
  folder: string,
  config: RunConfig,
): { readonly path: string; readonly content: string } {
  return { path: files.config, content: formatConfig(folder, config) };
}

export async function removeOptimizerState(folder: string): Promise<void> {
  await new CheckpointStore(join(folder, files.checkpoints)).removeOptimizerState();
}

export async function listPrunable(folder: string, checkpoints: boolean): Promise<string[]> {
  const path = join(folder, files.checkpoints);
  // A link may lead to files that the run did not write.
  if (!existsSync(path) || lstatSync(path).isSymbolicLink()) return [];
  return checkpoints ? [path] : new CheckpointStore(path).listOptimizerState();
}

export async function removeRunFiles(
  folder: string,
  parts: readonly ("checkpoints" | "model" | "results")[],
): Promise<void> {
  for (const part of parts) await rm(join(folder, files[part]), { recursive: true, force: true });
}

/** The folders of all runs at or below a folder, sorted by path. */
export async function findRunFolders(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const each of walkRunFolders(folder)) found.push(each);
  return found.sort();
}

export async function* walkRunFolders(
  folder: string,
  isWanted = isRunFolder,
  depth = maxSearchDepth,
  isFound = isWanted(folder),
): AsyncGenerator<string> {
  if (await isFound) yield folder;
  else if (depth > 0) {
    const inner = (await listSubfolders(folder)).filter((name) => !name.startsWith(".")).sort();
    for (let start = 0; start < inner.length; start += foldersPerLook) {
      const paths = inner.slice(start, start + foldersPerLook).map((name) => join(folder, name));
      const checks = paths.map(isWanted);
      for (const [i, path] of paths.entries()) yield* walkRunFolders(path, isWanted, depth - 1, checks[i]);
    }
  }
}

export async function isRunFolder(folder: string): Promise<boolean> {
  return (await exists(join(folder, files.config))) && (await exists(join(folder, files.environment)));
}

/**
 * A config as YAML: methods as `name: options`, and data inside the folder by its name, so that the
 * folder can move.
 */
export function formatConfig(folder: string, { methods, data, ...rest }: RunConfig): string {
  const isInside = data !== null && resolve(data) === resolve(folder, files.data);
  return stringify({
    ...rest,
    data: isInside ? files.data : data,
    methods: methods.map(({ name, options }) => ({ [name]: options })),
  });
}

/** A task's name that is safe in a path; for a file of the user's, the file's name. */
export function formatTaskName({ task, data }: Pick<RunConfig, "task" | "data">): string {
  const isFile = task === null && data !== null && !data.startsWith("hf:");
  const name = isFile ? formatDataName(data) : (task ?? data ?? "task").replace(/^hf:/, "");
  return name.replace(/[^\w.-]+/g, "-");
}

export function getDefaultRunFolder(config: RunConfig): string {
  return join("runs", `${formatTaskName(config)}-${formatMethodNames(config)}-seed${config.seed}`);
}
