import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { labelRuns, listSettings } from "../analysis/run-labels.js";
import { groupBy } from "../base/group-by.js";
import type { Results } from "../runs/results.js";
import { hardenFile } from "../runs/run-files.js";
import type { RunFolder } from "../runs/run-folder.js";

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
    const found = [...groupBy(inTask, ({ run }) => JSON.stringify(listSettings(run.config))).values()]
      .flatMap(splitRepeatedSeeds)
      .map((same) => same.toSorted((a, b) => a.run.config.seed - b.run.config.seed));
    const firsts = found.map(([first]) => first!.run);
    const labels = labelRuns(firsts, { ignoreSeed: true });
    const folders = firsts.map(({ folder }) => basename(folder));
    const groups = firsts.map((run, i) => {
      const [label, folder] = [labels[i]!, folders[i]!];
      // Both models of a hardening are known by their folders, and a list of settings says less than a folder's name.
      const isHardened = existsSync(join(dirname(run.folder), hardenFile));
      const isTelling = isHardened || (label.includes(", ") && found[i]!.length === 1);
      const isUnique = folders.indexOf(folder) === folders.lastIndexOf(folder);
      const name = isTelling && isUnique ? folder : label;
      return { name, options: formatOptions(run), runs: found[i]! };
    });
    const baseline = groups.find(({ runs: [first] }) => first!.run.method === "standard") ?? groups[0]!;
    return { task, groups, baseline };
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
