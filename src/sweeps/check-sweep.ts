import { loadConfiguredTask } from "../actions/load/load-task.js";
import { type Attack, getNeeds } from "../attacks/define-attack.js";
import { listResources, loadAttack } from "../attacks/load-attack.js";
import { UserError } from "../base/errors.js";
import { isModulePath } from "../base/trust.js";
import { checkLocalModel } from "../models/checkpoint/resolve-model.js";
import type { RunConfig } from "../settings/config.js";
import { isRemoteData } from "../tasks/index.js";
import { listInputFiles } from "./list-inputs.js";
import type { NewSweepPlan } from "./plan.js";
import type { SweepPlan } from "./plan-schema.js";
import { parseStageModel } from "./stages.js";

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

/** Rejects a sweep if a file that it needs is missing. */
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

/** The models of the runs, and the masked language model of the attacks in each column. */
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
      throw new UserError(`${place}: ${error.message} \`temper pretrain\` trains one.`, { cause: error });
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
