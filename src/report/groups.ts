import { type RunConfig, toMethodSpecs } from "../runs/config.js";
import { getMethodName, getTaskName } from "../runs/names.js";
import type { ReportRun } from "./read-run.js";

/** Runs of one config that differ in their seed alone. */
export interface RunGroup {
  /** Short and unique among the groups of its task. */
  readonly name: string;
  /** The options of its methods, where any were given. */
  readonly options: string;
  /** By seed. */
  readonly runs: readonly ReportRun[];
}

/** All runs on one task. */
export interface TaskGroups {
  readonly task: string;
  readonly groups: readonly RunGroup[];
  /** What the others are measured against: plain fine-tuning where it is there, else the first. */
  readonly baseline: RunGroup;
}

/** Settings that change where a run is computed, not what. */
const runtimeKeys = new Set(["seed", "device", "threads", "precision"]);

/** Sorts runs by task, and those that differ in their seed alone together. */
export function groupRuns(runs: readonly ReportRun[]): TaskGroups[] {
  const tasks = groupBy(runs, ({ config, results }) => results?.task ?? getTaskName(config));
  return [...tasks].map(([task, inTask]) => {
    const keyed = [...groupBy(inTask, ({ config }) => JSON.stringify(flattenSettings(config))).values()].flatMap(
      splitRepeatedSeeds,
    );
    const groups = nameGroups(keyed.map((same) => same.toSorted((a, b) => a.config.seed - b.config.seed)));
    const baseline =
      groups.find(({ runs: [first] }) => first !== undefined && getMethodName(first.config) === "standard") ??
      groups[0]!;
    return { task, groups, baseline };
  });
}

function groupBy<T>(items: readonly T[], getKey: (item: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const item of items) found.set(getKey(item), [...(found.get(getKey(item)) ?? []), item]);
  return found;
}

/** A seed that was run twice is no second seed: its runs stand in groups of their own. */
function splitRepeatedSeeds(runs: readonly ReportRun[]): ReportRun[][] {
  const bySeed = [...groupBy(runs, ({ config }) => String(config.seed)).values()];
  const most = Math.max(...bySeed.map((same) => same.length));
  return Array.from({ length: most }, (_, turn) => bySeed.flatMap((same) => same[turn] ?? []));
}

/** Groups of the same methods are told apart by the settings in which they differ; where those are the same, by their folder. */
function nameGroups(groups: readonly ReportRun[][]): RunGroup[] {
  return groups.map((runs) => {
    const { config, folder } = runs[0]!;
    const rivals = groups
      .filter(([other]) => getMethodName(other!.config) === getMethodName(config))
      .map(([other]) => flattenSettings(other!.config));
    const settings = flattenSettings(config);
    const telling = Object.keys(settings).filter((key) => rivals.some((rival) => rival[key] !== settings[key]));
    const isTwin = rivals.filter((rival) => JSON.stringify(rival) === JSON.stringify(settings)).length > 1;
    const told = telling.map((key) => `${key.replace(/^train\./, "")} ${settings[key]}`);
    const suffix = [...told, ...(isTwin ? [folder] : [])].join(", ");
    const options = toMethodSpecs(config.methods).flatMap(({ options: given }) =>
      Object.entries(given).map(([key, value]) => `${key} ${value}`),
    );
    return { name: getMethodName(config) + (suffix && ` (${suffix})`), options: options.join(", "), runs };
  });
}

/** Every setting that decides a run under its whole key, as text; those of methods are named by the method. */
function flattenSettings({ train, methods: method, ...rest }: RunConfig): Record<string, string> {
  const methods = toMethodSpecs(method).flatMap(({ name, options }) =>
    Object.entries(options).map(([key, value]) => [`${name}.${key}`, value]),
  );
  const inner = Object.entries(train).map(([key, value]) => [`train.${key}`, value]);
  const outer = Object.entries(rest).filter(([key]) => !runtimeKeys.has(key));
  return {
    methods: toMethodSpecs(method)
      .map(({ name }) => name)
      .join("+"),
    ...Object.fromEntries(
      [...outer, ...inner, ...methods].map(([key, value]) => [
        key,
        typeof value === "string" ? value : JSON.stringify(value),
      ]),
    ),
  };
}
