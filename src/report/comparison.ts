import { type MeasuredSeed, toModelOutcomes } from "../actions/compare.js";
import { Rng } from "../base/rng.js";
import { compareModels, type MetricComparison } from "../evaluation/compare.js";
import type { ExampleOutcomes } from "../evaluation/outcomes.js";
import { type Interval, mean, pairedBootstrap, standardDeviation, wilsonInterval } from "../evaluation/statistics.js";
import { unifyWorstCase } from "../evaluation/worst-case.js";
import type { RunGroup, TaskGroups } from "./groups.js";
import type { ReportRun } from "./report-run.js";

export interface ComparedMetric {
  readonly value: number;
  readonly examples: number;
  /** The label whose texts were attacked; null if they are of every label. */
  readonly attackedLabel: string | null;
  /** 95% CI; null if the seeds saw different numbers of examples. */
  readonly interval: Interval | null;
  /** Standard deviation over the seeds; null for one seed. */
  readonly std: number | null;
  /** The comparison with the baseline on the same examples; null if there is none. */
  readonly comparison: MetricComparison | null;
}

/** A group of runs with its metrics by id: accuracy, clean, each attack and worst-case. */
export interface ComparisonRow {
  readonly group: RunGroup<ReportRun>;
  readonly metrics: ReadonlyMap<string, ComparedMetric>;
  /** The reason why a run of the group is degenerate; null if all are sound. */
  readonly degeneracy: string | null;
}

const bootstrapSamples = 4000;

/** Compares every group of a task with the baseline: in each comparison, the baseline is first. */
export function compareGroups({ groups, baseline }: TaskGroups<ReportRun>): ComparisonRow[] {
  const ordered = [baseline, ...groups.filter((group) => group !== baseline)];
  const models = ordered.map((group) => toModelOutcomes(group.name, group.runs.map(toMeasuredSeed)));
  const comparisons = models.length > 1 ? compareModels(models, { skipIncomparable: true }) : [];
  const unified = new Map(unifyWorstCase(models).map((model) => [model.name, model]));
  return groups.map((group) => {
    const { outcomesPerSeed, degeneracies = [], attackedLabel = null } = unified.get(group.name)!;
    const ids = [...(outcomesPerSeed[0]?.keys() ?? [])].filter((id) => outcomesPerSeed.every((seed) => seed.has(id)));
    const metrics = ids.map((id): [string, ComparedMetric] => {
      const found = comparisons.find(({ metric, secondName }) => metric === id && secondName === group.name);
      const summary = summarizeSeeds(outcomesPerSeed.map((seed) => seed.get(id)!));
      return [id, { ...summary, attackedLabel, comparison: found ?? null }];
    });
    return { group, metrics: new Map(metrics), degeneracy: degeneracies.find((reason) => reason !== null) ?? null };
  });
}

function toMeasuredSeed({ run, metrics, degeneracy }: ReportRun): MeasuredSeed {
  return { seed: run.config.seed, metrics, degeneracy };
}

/** Averages over seeds. The interval reflects the sampling noise of seeds and examples. */
function summarizeSeeds(seeds: readonly ExampleOutcomes[]): Omit<ComparedMetric, "comparison" | "attackedLabel"> {
  const scores = seeds.map((outcomes) => Uint8Array.from(outcomes.values(), Number));
  const accuracies = scores.map((row) => mean(row));
  const [first] = scores as [Uint8Array];
  const hasEqualLengths = scores.every((row) => row.length === first.length);
  const zeros = scores.map((row) => new Uint8Array(row.length));
  const interval =
    scores.length === 1
      ? wilsonInterval(first.filter(Boolean).length, first.length)
      : hasEqualLengths
        ? pairedBootstrap(scores, zeros, new Rng("report"), bootstrapSamples)
        : null;
  const std = accuracies.length > 1 ? standardDeviation(accuracies) : null;
  return { value: mean(accuracies), examples: first.length, interval, std };
}
