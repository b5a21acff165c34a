import { basename } from "node:path";
import { labelRuns, listSettings } from "../analysis/run-labels.js";
import { groupBy } from "../base/group-by.js";
import type { Results } from "../runs/results.js";
import type { RunFolder } from "../runs/run-folder.js";

/** The facts of a run that grouping needs. */
interface GroupedRun {
  readonly run: RunFolder;
  readonly results: Results | null;
}

/** Runs that differ only in their seed, sorted by it. */
export interface RunGroup<T extends GroupedRun> {
  /** Short and unique among the groups of the task. */
  readonly name: string;
  /** The options of the methods, if any were given. */
  readonly options: string;
  readonly runs: readonly T[];
}

/** All runs of one task. */
export interface TaskGroups<T extends GroupedRun> {
  readonly task: string;
  readonly groups: readonly RunGroup<T>[];
  /** The group that the others are compared with: standard fine-tuning, otherwise the first. */
  readonly baseline: RunGroup<T>;
}

/** Groups runs by task, and inside a task those that differ only in their seed. */
export function groupRuns<T extends GroupedRun>(runs: readonly T[]): TaskGroups<T>[] {
  const tasks = groupBy(runs, ({ run, results }) => results?.task ?? run.task);
  return [...tasks].map(([task, inTask]) => {
    const groups = [...groupBy(inTask, ({ run }) => JSON.stringify(listSettings(run.config))).values()]
      .flatMap(splitRepeatedSeeds)
      .map((same) => same.toSorted((a, b) => a.run.config.seed - b.run.config.seed));
    const names = labelRuns(
      groups.map(([first]) => first!.run),
      { ignoreSeed: true },
    );
    const folders = groups.map(([first]) => basename(first!.run.folder));
    const named = groups.map((same, i) => {
      // A list of settings says less than the name that somebody gave to a folder.
      const isLong = names[i]!.includes(", ") && same.length === 1;
      const name =
        isLong && folders.indexOf(folders[i]!) === folders.lastIndexOf(folders[i]!) ? folders[i]! : names[i]!;
      return { name, options: formatOptions(same[0]!.run), runs: same };
    });
    return { task, groups: named, baseline: findBaseline(named) };
  });
}

function findBaseline<T extends GroupedRun>(groups: readonly RunGroup<T>[]): RunGroup<T> {
  return groups.find(({ runs: [first] }) => first!.run.method === "standard") ?? groups[0]!;
}

/** Groups models that somebody named by task. The first one of a task is its baseline. */
export function groupModels<T extends GroupedRun>(
  models: readonly { readonly name: string; readonly runs: readonly T[] }[],
): TaskGroups<T>[] {
  const tasks = groupBy(models, ({ runs: [first] }) => first!.results?.task ?? first!.run.task);
  return [...tasks].map(([task, inTask]) => {
    const groups = inTask.map(({ name, runs }) => ({ name, options: formatOptions(runs[0]!.run), runs }));
    return { task, groups, baseline: groups[0]! };
  });
}

/** Runs that repeat a seed belong to separate groups, because they are not independent samples. */
function splitRepeatedSeeds<T extends GroupedRun>(runs: readonly T[]): T[][] {
  const bySeed = [...groupBy(runs, ({ run }) => String(run.config.seed)).values()];
  const repeats = Math.max(...bySeed.map((same) => same.length));
  return Array.from({ length: repeats }, (_, i) => bySeed.flatMap((same) => same[i] ?? []));
}

function formatOptions({ config }: RunFolder): string {
  return config.methods
    .flatMap(({ options }) => Object.entries(options).map(([key, value]) => `${key} ${value}`))
    .join(", ");
}
