import { loadConfiguredTask } from "../actions/train/prepare-run.js";
import { listResources, loadAttack } from "../attacks/load-attack.js";
import { UserError } from "../errors.js";
import type { RunConfig } from "../runs/config.js";
import { isRemoteData } from "../tasks/index.js";
import { isModulePath } from "../trust.js";
import { listInputFiles } from "./list-inputs.js";
import type { NewSweepPlan } from "./plan.js";

/**
 * Checks what would otherwise fail only after hours of training: the columns and labels of the
 * user's files, and the substitutions of every attack. Nothing is downloaded.
 */
export async function checkSweep(sweep: NewSweepPlan): Promise<void> {
  await checkSubstitutions(sweep);
  const checked = new Set<string>();
  for (const config of Object.values(sweep.configs)) {
    const { task, data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows } = config;
    if (task !== null || data === null || isRemoteData(data)) continue;
    const key = JSON.stringify([data, textColumn, labelColumn, labelMap, validationData, testData, skipBadRows]);
    if (!checked.has(key)) await checkData(config);
    checked.add(key);
  }
}

/** Rejects a sweep if a file that it needs is missing. */
export function checkInputFiles(sweep: NewSweepPlan): void {
  const missing = listInputFiles(sweep).filter(({ isThere }) => !isThere);
  if (missing.length === 0) return;
  const lines = missing.map(({ path, command }) => `${path} is missing. Build it with: ${command}`);
  throw new UserError(lines.join("\n"));
}

async function checkSubstitutions({ plan, configs }: NewSweepPlan): Promise<void> {
  const { attacks, options, columns } = plan.settings.evaluation;
  const needs: string[] = [];
  // A dry run imports no module of the file.
  for (const [name, given] of Object.entries(attacks))
    if (!isModulePath(name)) needs.push(...listResources(await loadAttack({ name, options: given ?? {} })));
  if (!needs.some((need) => need === "substitutions" || need === "caseInsensitiveSubstitutes")) return;
  for (const { row, column, points } of plan.cells) {
    const { resources: changed } = columns[column] ?? {};
    const given = { ...options.resources, ...(changed as object | undefined) }.substitutions;
    if (given || points.every(({ runs }) => runs.every((run) => configs[run]!.substitutions !== null))) continue;
    throw new UserError(
      `evaluation.attacks: row ${row} in column ${column} has no substitutions to attack with. ` +
        "Set substitutions: wordnet (or a JSON file) for all runs, or evaluation.options.resources.substitutions.",
    );
  }
}

async function checkData(config: RunConfig): Promise<void> {
  const loaded = await loadConfiguredTask(config, {});
  for (const split of loaded.splits) await loaded.load(split);
}
