import { UserError } from "../errors.js";
import {
  compareModels,
  type ExampleOutcomes,
  type MetricComparison,
  type ModelOutcomes,
} from "../evaluation/compare.js";
import {
  holmCorrection,
  type Interval,
  mean,
  pairedBootstrap,
  standardDeviation,
  wilsonInterval,
} from "../evaluation/statistics.js";
import { Rng } from "../tensor/random.js";
import type { RunGroup, TaskGroups } from "./groups.js";
import type { ReportRun } from "./report-run.js";

/** A metric of a group of runs, with its uncertainty. */
export interface ComparedMetric {
  readonly value: number;
  readonly examples: number;
  /** 95% CI; null if the seeds saw different numbers of examples. */
  readonly interval: Interval | null;
  /** Standard deviation over the seeds; null for one seed. */
  readonly std: number | null;
  /** The difference from the baseline on the same examples; null if it cannot be tested. */
  readonly difference: BaselineDifference | null;
}

export interface BaselineDifference extends Interval {
  readonly value: number;
  /** Corrected for all tests of the table (Holm). */
  readonly p: number;
  readonly test: "McNemar" | "bootstrap";
}

/** A group of runs with its metrics by id: accuracy, clean, each attack and worst-case. */
export interface ComparisonRow {
  readonly group: RunGroup<ReportRun>;
  readonly metrics: ReadonlyMap<string, ComparedMetric>;
}

/** Random streams of the report. The name of a stream is part of the results. */
const streamNames = { accuracy: "reported", clean: "before attack" };
const bootstrapSamples = 4000;

/** Compares every group of a task with the baseline, on the same examples and seeds. */
export function compareGroups({ groups, baseline }: TaskGroups<ReportRun>): ComparisonRow[] {
  const tests = groups.flatMap((group) =>
    (group === baseline ? [] : compareWithBaseline(group, baseline)).map((comparison) => ({ group, comparison })),
  );
  const corrected = holmCorrection(tests.map(({ comparison: { p } }) => p.mcNemar ?? p.bootstrap));
  return groups.map((group) => {
    const differences = new Map(
      tests.flatMap(({ group: tested, comparison }, i) =>
        tested === group ? [[comparison.metric, toDifference(comparison, corrected[i]!)] as const] : [],
      ),
    );
    const { outcomesPerSeed } = collectOutcomes(group);
    const ids = [...(outcomesPerSeed[0]?.keys() ?? [])].filter((id) => outcomesPerSeed.every((seed) => seed.has(id)));
    const metrics = ids.map((id): [string, ComparedMetric] => {
      const seeds = outcomesPerSeed.map((seed) => seed.get(id)!);
      return [id, { ...summarizeSeeds(seeds), difference: differences.get(id) ?? null }];
    });
    return { group, metrics: new Map(metrics) };
  });
}

/**
 * Which examples each seed classified correctly. Runs without metrics, such as unfinished ones, are
 * left out.
 */
function collectOutcomes({ name, runs }: RunGroup<ReportRun>): ModelOutcomes & { readonly seeds: readonly number[] } {
  const measured = runs.filter(({ metrics }) => metrics.size > 0);
  return {
    name,
    seeds: measured.map(({ run }) => run.config.seed),
    outcomesPerSeed: measured.map(
      ({ metrics }) =>
        new Map(
          [...metrics].flatMap(([id, { outcomes }]): [string, ExampleOutcomes][] => (outcomes ? [[id, outcomes]] : [])),
        ),
    ),
  };
}

/** Compares on the seeds that both groups have. The result is empty if nothing can be compared. */
function compareWithBaseline(group: RunGroup<ReportRun>, baseline: RunGroup<ReportRun>): MetricComparison[] {
  const models = [collectOutcomes(group), collectOutcomes(baseline)] as const;
  if (!models[0].seeds.some((seed) => models[1].seeds.includes(seed))) return [];
  try {
    return compareModels(models, { streamNames });
  } catch (error) {
    if (error instanceof UserError) return [];
    throw error;
  }
}

function toDifference({ difference, low, high, p }: MetricComparison, corrected: number): BaselineDifference {
  return { value: difference, low, high, p: corrected, test: p.mcNemar === null ? "bootstrap" : "McNemar" };
}

/** Averages over seeds. The interval reflects the sampling noise of seeds and examples. */
function summarizeSeeds(seeds: readonly ExampleOutcomes[]): Omit<ComparedMetric, "difference"> {
  const scores = seeds.map((outcomes) => Uint8Array.from(outcomes.values(), Number));
  const accuracies = scores.map((row) => mean(row));
  const [first] = scores as [Uint8Array];
  const hasEqualLengths = scores.every((row) => row.length === first.length);
  const zeros = scores.map((row) => new Uint8Array(row.length));
  const interval =
    scores.length === 1
      ? wilsonInterval(first.filter(Boolean).length, first.length)
      : hasEqualLengths
        ? pairedBootstrap(scores, zeros, new Rng("report"), { samples: bootstrapSamples })
        : null;
  const std = accuracies.length > 1 ? standardDeviation(accuracies) : null;
  return { value: mean(accuracies), examples: first.length, interval, std };
}
