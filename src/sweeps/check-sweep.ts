import { existsSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { loadConfiguredTask } from "../actions/load/load-task.js";
import { getTablePath } from "../actions/substitutions/substitutions.js";
import { type Attack, getNeeds } from "../attacks/define-attack.js";
import { listResources, loadAttack } from "../attacks/load-attack.js";
import { getErrorMessage, UserError } from "../base/errors.js";
import { isModulePath } from "../base/trust.js";
import { checkLocalModel, listModelFiles, resolveModel } from "../models/checkpoint/resolve-model.js";
import type { RunConfig } from "../settings/config.js";
import { resolveTablePath } from "../settings/read-config.js";
import { advglueParts } from "../tasks/advglue.js";
import { findTaskSource, isRemoteData } from "../tasks/index.js";
import type { NewSweepPlan } from "./plan.js";
import type { SweepPlan } from "./schema.js";
import { parseStageModel } from "./stages.js";

export async function listSweepInputs({ plan, configs }: NewSweepPlan) {
  const runs = Object.values(configs);
  const downloads: Awaited<ReturnType<typeof findDownload>> = [];
  for (const model of new Set(runs.map((run) => run.model).filter((name) => parseStageModel(name) === null)))
    downloads.push(...(await findDownload(`model ${model}`, () => listModelFiles(model))));
  for (const { task, data } of listTasks(plan, runs))
    downloads.push(
      ...(await findDownload(`dataset of ${task ?? data}`, async () => {
        const source = await findTaskSource({ ...(task !== null && { task }), ...(data !== null && { data }) });
        return source && (await source.listFiles());
      })),
    );
  return { downloads, files: listInputFiles({ plan, configs }) };
}

export type SweepInputs = Awaited<ReturnType<typeof listSweepInputs>>;

/** The bytes of a source that are not in the cache yet; null if the hub did not say. */
async function findDownload(
  name: string,
  list: () => Promise<readonly { readonly size: number; readonly isCached: boolean }[] | null>,
): Promise<{ readonly name: string; readonly bytes: number | null; readonly problem: string | null }[]> {
  try {
    const missing = (await list())?.filter(({ isCached }) => !isCached) ?? [];
    const bytes = missing.reduce((sum, { size }) => sum + size, 0);
    return bytes > 0 ? [{ name, bytes, problem: null }] : [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [{ name, bytes: null, problem: getErrorMessage(error) }];
  }
}

/** The bytes of the weights of the largest model; those of the hub count if it can be asked. */
export async function measureLargestModel({ configs }: NewSweepPlan): Promise<number> {
  const models = [...new Set(Object.values(configs).map(({ model }) => model))];
  const sizes = models.filter((model) => parseStageModel(model) === null).map(measureWeights);
  return Math.max(...(await Promise.all(sizes)));
}

async function measureWeights(model: string): Promise<number> {
  const remote = await listModelFiles(model).catch(() => []);
  const files = remote ?? (await listFiles((await resolveModel(model)).folder));
  return files.reduce((sum, { path, size }) => sum + (/\.(safetensors|bin)$/.test(path) ? size : 0), 0);
}

async function listFiles(folder: string): Promise<{ readonly path: string; readonly size: number }[]> {
  const paths = await readdir(folder);
  return Promise.all(paths.map(async (path) => ({ path, size: (await stat(join(folder, path))).size })));
}

function listTasks(plan: SweepPlan, runs: readonly RunConfig[]): Pick<RunConfig, "task" | "data">[] {
  const tasks = new Map(runs.map(({ task, data }) => [JSON.stringify([task, data]), { task, data }]));
  if (plan.settings.evaluation.advglue)
    for (const { task, data } of [...tasks.values()]) {
      const part = advglueParts.find((each) => each === task);
      if (part) tasks.set(`advglue ${part}`, { task: `advglue:${part}`, data });
    }
  return [...tasks.values()];
}

function listInputFiles({ plan, configs }: NewSweepPlan) {
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

/**
 * Checks what would otherwise fail only after hours of training: the columns and labels of the
 * user's files, models in folders and packages, and the resources of every attack. Nothing is
 * downloaded.
 */
export async function checkSweep(sweep: NewSweepPlan): Promise<void> {
  const attacks = await loadAttacks(sweep.plan);
  checkSubstitutions(sweep, attacks);
  await checkModels(sweep, attacks);
  const checked = new Set<string>();
  for (const config of Object.values(sweep.configs)) {
    const { task, data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows } = config;
    if (task !== null || data === null || isRemoteData(data)) continue;
    const key = JSON.stringify([data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows]);
    if (!checked.has(key)) await checkData(config);
    checked.add(key);
  }
}

export function checkInputFiles(sweep: NewSweepPlan): void {
  const missing = listInputFiles(sweep).filter(({ isThere }) => !isThere);
  if (missing.length === 0) return;
  const lines = missing.map(({ path, command }) => `${path} is missing. Build it with: ${command}`);
  throw new UserError(lines.join("\n"));
}

/** The attacks of a sweep. A dry run imports no module of the file. */
async function loadAttacks({ settings }: SweepPlan): Promise<Attack[]> {
  const specs = Object.entries(settings.evaluation.attacks).filter(([name]) => !isModulePath(name));
  return Promise.all(specs.map(([name, given]) => loadAttack({ name, options: given ?? {} })));
}

async function checkModels({ plan, configs }: NewSweepPlan, attacks: readonly Attack[]): Promise<void> {
  const models = new Set(Object.values(configs).map(({ model }) => model));
  for (const model of models) if (parseStageModel(model) === null) await checkLocalModel(model);
  if (!attacks.some((attack) => listResources(attack).includes("mlm"))) return;
  // Some attacks can do without one.
  const isNeeded = attacks.some(({ definition, options }) => getNeeds(definition, options).includes("mlm"));
  const { options, columns } = plan.settings.evaluation;
  for (const { id } of plan.columns) {
    const { maskedLm } = { ...options, ...columns[id] };
    const place = "evaluation.options.maskedLm";
    if (maskedLm === null && !isNeeded) continue;
    if (maskedLm === null)
      throw new UserError(`${place}: expected a masked language model for the attacks, received none.`);
    await checkLocalModel(maskedLm).catch((error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(`${place}: ${error.message}`, { cause: error });
    });
  }
}

function checkSubstitutions({ plan, configs }: NewSweepPlan, attacks: readonly Attack[]): void {
  const needs = new Set(attacks.flatMap(listResources));
  if (!needs.has("substitutions") && !needs.has("caseInsensitiveSubstitutes")) return;
  const { options, columns } = plan.settings.evaluation;
  for (const { row, column, points } of plan.cells) {
    const { substitutions } = { ...options, ...columns[column] };
    if (substitutions || points.every(({ runs }) => runs.every((run) => configs[run]!.substitutions !== null)))
      continue;
    throw new UserError(
      `evaluation.attacks: row ${row} in column ${column} has no substitutions to attack with. ` +
        "Set substitutions: wordnet (or a JSON file) for all runs, or evaluation.options.substitutions.",
    );
  }
}

async function checkData(config: RunConfig): Promise<void> {
  const loaded = await loadConfiguredTask(config, {});
  for (const split of loaded.splits) await loaded.load(split);
}
