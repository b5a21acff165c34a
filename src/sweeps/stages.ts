import { UserError } from "../base/errors.js";
import type { RunConfig } from "../settings/config.js";
import { checkName } from "./read-sweep.js";
import type { SweepPlan } from "./schema.js";

/** A model that a sweep trains itself: stage:NAME in the file, stage:RUN in the plan. */
const prefix = "stage:";

export function parseStageModel(model: unknown): string | null {
  return typeof model === "string" && model.startsWith(prefix) ? model.slice(prefix.length) : null;
}

/** The runs of a stage: one for all seeds of the table, or one per seed, in their order. */
export interface StageRuns {
  readonly isPerSeed: boolean;
  readonly names: readonly string[];
}

/** Names the run of a stage, so that the hash of a run includes its initial model. */
export function linkToStageRuns(
  config: RunConfig,
  seeds: readonly number[],
  runs: ReadonlyMap<string, StageRuns>,
  allStages: readonly string[],
  location: string,
): RunConfig[] {
  const stage = parseStageModel(config.model);
  if (stage === null) return seeds.map((seed) => ({ ...config, seed }));
  if (allStages.length === 0)
    throw new UserError(`${location}: model: ${config.model}: the file has no stages. Add stages: { ${stage}: … }.`);
  checkName(stage, allStages, "stage", `${location}: model`);
  const found = runs.get(stage);
  if (found === undefined)
    throw new UserError(
      `${location}: model: expected an earlier stage${runs.size > 0 ? ` (${[...runs.keys()].join(", ")})` : ""} ` +
        `or another model, received ${config.model}. Set model in this stage. ` +
        "To start from a stage with perSeed, a stage needs it, too.",
    );
  const { isPerSeed, names } = found;
  return seeds.map((seed, i) => ({ ...config, seed, model: `${prefix}${names[isPerSeed ? i : 0]}` }));
}

/** The config with the model that the first of its stages starts from: it has the same size. */
export function resolveInitialModel(config: RunConfig, configs: Readonly<Record<string, RunConfig>>): RunConfig {
  const run = parseStageModel(config.model);
  return run === null ? config : resolveInitialModel({ ...config, model: configs[run]!.model }, configs);
}

/** The runs in the order of their stages: each list needs only the lists before it. */
export function listTrainingLevels({ runs, startsFrom }: SweepPlan): string[][] {
  const levels: string[][] = [];
  const getLevel = (run: string): number => (run in startsFrom ? 1 + getLevel(startsFrom[run]!) : 0);
  for (const run of runs) {
    const level = getLevel(run);
    while (levels.length <= level) levels.push([]);
    levels[level]!.push(run);
  }
  return levels;
}

export function describeBlockedRuns({ runs, startsFrom, stages }: SweepPlan, failed: string): string {
  const needs = (run: string): boolean => run in startsFrom && (startsFrom[run] === failed || needs(startsFrom[run]!));
  const count = runs.filter(needs).length;
  if (count === 0) return "";
  const names = Object.keys(stages).filter((stage) => stages[stage] === failed);
  return (
    `\nIt is stage ${names.join(", ")}. ${count === 1 ? "1 run starts" : `${count} runs start`} from its model and cannot start. ` +
    "Correct the cause and continue with --resume: everything that has finished is kept."
  );
}
