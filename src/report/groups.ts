import { labelRuns, listSettings } from "../analysis/run-labels.js";
import type { Results } from "../runs/results.js";
import type { RunFolder } from "../runs/run-folder.js";

/** What grouping needs to know about a run. */
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
    const named = groups.map((same, i) => ({ name: names[i]!, options: formatOptions(same[0]!.run), runs: same }));
    const baseline = named.find(({ runs: [first] }) => first!.run.method === "standard") ?? named[0]!;
    return { task, groups: named, baseline };
  });
}

function groupBy<T>(items: readonly T[], getKey: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(getKey(item), [...(groups.get(getKey(item)) ?? []), item]);
  return groups;
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
