import { existsSync } from "node:fs";
import { getTablePath } from "../actions/substitutions/build-substitutions.js";
import { getErrorMessage, UserError } from "../base/errors.js";
import { listModelFiles } from "../models/checkpoint/resolve-model.js";
import type { RunConfig } from "../settings/config.js";
import { resolveTablePath } from "../settings/read-config.js";
import { advglueParts } from "../tasks/advglue.js";
import { findTaskSource } from "../tasks/index.js";
import type { NewSweepPlan } from "./plan.js";
import type { SweepPlan } from "./plan-schema.js";
import { parseStageModel } from "./stages.js";

/** A model or a dataset on the Hugging Face Hub. */
export interface SweepDownload {
  readonly name: string;
  /** Bytes that are not in the cache yet; null if the hub did not say. */
  readonly bytes: number | null;
  /** Why the bytes are unknown. */
  readonly problem: string | null;
}

/** A file that the user must supply. */
export interface SweepInputFile {
  readonly path: string;
  readonly isThere: boolean;
  /** The command that builds it, and the origin of its source. */
  readonly command: string;
  readonly source: string;
}

export interface SweepInputs {
  readonly downloads: readonly SweepDownload[];
  readonly files: readonly SweepInputFile[];
}

/** Lists what a sweep downloads and which files it needs. Nothing is downloaded. */
export async function listSweepInputs({ plan, configs }: NewSweepPlan): Promise<SweepInputs> {
  const runs = Object.values(configs);
  const downloads: SweepDownload[] = [];
  for (const model of new Set(runs.map((run) => run.model).filter((name) => parseStageModel(name) === null)))
    await addDownload(downloads, `model ${model}`, () => listModelFiles(model));
  for (const { task, data } of listTasks(plan, runs))
    await addDownload(downloads, `dataset of ${task ?? data}`, async () => {
      const source = await findTaskSource({ ...(task !== null && { task }), ...(data !== null && { data }) });
      return source && (await source.listFiles());
    });
  return { downloads, files: listInputFiles({ plan, configs }) };
}

async function addDownload(
  downloads: SweepDownload[],
  name: string,
  list: () => Promise<readonly { readonly size: number; readonly isCached: boolean }[] | null>,
): Promise<void> {
  try {
    const missing = (await list())?.filter(({ isCached }) => !isCached) ?? [];
    const bytes = missing.reduce((sum, { size }) => sum + size, 0);
    if (bytes > 0) downloads.push({ name, bytes, problem: null });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    downloads.push({ name, bytes: null, problem: getErrorMessage(error) });
  }
}

/** The data of the runs and, if they are evaluated on it, of AdvGLUE. */
function listTasks(plan: SweepPlan, runs: readonly RunConfig[]): Pick<RunConfig, "task" | "data">[] {
  const tasks = new Map(runs.map(({ task, data }) => [JSON.stringify([task, data]), { task, data }]));
  if (plan.settings.evaluation.advglue)
    for (const { task, data } of [...tasks.values()]) {
      const part = advglueParts.find((each) => each === task);
      if (part) tasks.set(`advglue ${part}`, { task: `advglue:${part}`, data });
    }
  return [...tasks.values()];
}

/** Lists the files that the user must supply. */
export function listInputFiles({ plan, configs }: NewSweepPlan): SweepInputFile[] {
  const { evaluation } = plan.settings;
  const { options, columns } = evaluation;
  const tables = [...Object.values(configs).map((config) => config.substitutions), options.substitutions];
  const constraints = [options, ...Object.values(columns)].map(
    (each) => (each as { lmConstraint?: string | null }).lmConstraint ?? null,
  );
  return [
    ...listPaths(tables.filter((table) => table !== "wordnet")).map((path) => ({
      ...locate(path),
      command: `temper substitutions build --vectors counter-fitted-vectors.txt --out ${locate(path).path}`,
      source: "counter-fitted vectors of Mrkšić et al. 2016 (github.com/nmrksic/counter-fitting)",
    })),
    ...listPaths(constraints).map((path) => ({
      ...locate(path),
      command: `temper substitutions lm-constraint --scores SCORES.txt --out ${locate(path).path}`,
      source: "language-model scores released by Jia et al. 2019 (github.com/robinjia/certified-word-sub)",
    })),
  ];
}

function listPaths(paths: readonly (string | null)[]): string[] {
  return [...new Set(paths.filter((path) => path !== null))];
}

/** The file itself or, if it is missing, the place where it will be found. */
function locate(path: string): { readonly path: string; readonly isThere: boolean } {
  const found = resolveTablePath(path);
  const isThere = existsSync(found);
  return { path: isThere || /[\\/]/.test(path) ? found : getTablePath(path), isThere };
}
