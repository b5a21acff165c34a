import { UserError } from "../errors.js";
import { computeOutcomes } from "../evaluation/attack-summary.js";
import { compareModels, type ExampleOutcomes, type ModelOutcomes } from "../evaluation/compare.js";
import {
  holmCorrection,
  type Interval,
  mean,
  pairedBootstrap,
  standardDeviation,
  wilsonInterval,
} from "../evaluation/statistics.js";
import { parseOutcomes } from "../runs/read-outcomes.js";
import { Rng } from "../tensor/random.js";
import type { RunGroup, TaskGroups } from "./groups.js";
import type { ReportRun } from "./read-run.js";

/** A share with what luck may have done to it. */
export interface ComparedMetric {
  readonly value: number;
  readonly examples: number;
  /** 95 %; null where only the spread over seeds is known. */
  readonly interval: Interval | null;
  /** Standard deviation over seeds; null of one. */
  readonly std: number | null;
  /** How it differs from the baseline's; null where that cannot be tested. */
  readonly difference: BaselineDifference | null;
}

/** A difference from the baseline on the same examples. */
export interface BaselineDifference extends Interval {
  readonly value: number;
  /** Corrected for all tests of the table (Holm). */
  readonly p: number;
  readonly test: "McNemar" | "bootstrap";
}

/** What a method is measured by: accuracy where it reports, the same before and under each attack, and the worst of all attacks. */
export interface ComparisonRow {
  readonly group: RunGroup;
  readonly measures: ReadonlyMap<string, ComparedMetric>;
}

/** Chance below which a difference is marked. */
export const significanceLevel = 0.05;
/** Names of measures that are no attacks. */
export const reportedMetric = "reported";
export const beforeAttackMetric = "before attack";
export const worstCaseMetric = "worst case";

/** Puts the groups of a task beside one another, each against the baseline on the same examples and seeds. */
export function compareGroups({ groups, baseline }: TaskGroups): ComparisonRow[] {
  const seedOutcomes = new Map(groups.map((group) => [group, group.runs.map(collectOutcomes)]));
  const tests: { p: number }[] = [];
  const rows = groups.map((group) => {
    const own = seedOutcomes.get(group)!;
    const names = [...new Set(own.flatMap((measures) => [...measures.keys()]))];
    const measured = names.flatMap((name): [string, ComparedMetric][] => {
      const seeds = own.flatMap((measures) => measures.get(name) ?? []);
      if (seeds.length < own.length) return [];
      const difference = group === baseline ? null : compareToBaseline(name, group, baseline, seedOutcomes);
      if (difference) tests.push(difference);
      return [[name, { ...summarizeSeeds(seeds), difference }]];
    });
    return { group, measures: new Map([...readReportedAccuracy(group), ...measured]) };
  });
  const corrected = holmCorrection(tests.map(({ p }) => p));
  tests.forEach((test, i) => {
    test.p = corrected[i]!;
  });
  return rows;
}

/** What was measured in a run, text by text. */
function collectOutcomes({
  results,
  attacks: { journals, combined },
}: ReportRun): ReadonlyMap<string, ExampleOutcomes> {
  const own = results && parseOutcomes(results.test);
  const attacked = computeOutcomes(journals);
  if (!combined) attacked.delete("worst-case");
  const names: Readonly<Record<string, string>> = { clean: beforeAttackMetric, "worst-case": worstCaseMetric };
  return new Map<string, ExampleOutcomes>([
    ...(own ? [[reportedMetric, own] as const] : []),
    ...[...attacked].map(([id, outcomes]) => [names[id] ?? id, outcomes] as const),
  ]);
}

const bootstrapSamples = 4000;

/** Over seeds, both the seeds' luck and the examples' counts. */
function summarizeSeeds(seeds: readonly ExampleOutcomes[]): Omit<ComparedMetric, "difference"> {
  const scores = seeds.map((outcomes) => Uint8Array.from(outcomes.values(), Number));
  const accuracies = scores.map((row) => mean(row));
  const [first] = scores as [Uint8Array];
  const alike = scores.every((row) => row.length === first.length);
  const nothing = scores.map((row) => new Uint8Array(row.length));
  const interval =
    scores.length === 1
      ? wilsonInterval(first.filter(Boolean).length, first.length)
      : alike
        ? pairedBootstrap(scores, nothing, new Rng("report"), { samples: bootstrapSamples })
        : null;
  return { value: mean(accuracies), examples: first.length, interval, std: computeStd(accuracies) };
}

/** Results that do not tell text by text have an accuracy all the same. */
function readReportedAccuracy({ runs }: RunGroup): [string, ComparedMetric][] {
  const reports = runs.flatMap(({ results }) => (results ? [results.test] : []));
  const [first] = reports;
  if (!first) return [];
  const values = reports.map(({ accuracy }) => accuracy);
  const [low, high] = first.interval;
  const interval = reports.length === 1 ? { low, high } : null;
  return [
    [
      reportedMetric,
      { value: mean(values), examples: first.examples, interval, std: computeStd(values), difference: null },
    ],
  ];
}

function computeStd(values: readonly number[]): number | null {
  return values.length > 1 ? standardDeviation(values) : null;
}

type SeedOutcomes = ReadonlyMap<RunGroup, readonly ReadonlyMap<string, ExampleOutcomes>[]>;

/** On the seeds that both have; null where they have no texts in common. */
function compareToBaseline(
  name: string,
  group: RunGroup,
  baseline: RunGroup,
  seedOutcomes: SeedOutcomes,
): { -readonly [key in keyof BaselineDifference]: BaselineDifference[key] } | null {
  const seeds = group.runs
    .map(({ config }) => config.seed)
    .filter((seed) => baseline.runs.some(({ config }) => config.seed === seed));
  const toModelOutcomes = (of: RunGroup): ModelOutcomes => ({
    name: of.name,
    outcomesPerSeed: seeds.map((seed) => {
      const outcomes = seedOutcomes.get(of)![of.runs.findIndex(({ config }) => config.seed === seed)]!.get(name);
      return new Map(outcomes ? [[name, outcomes]] : []);
    }),
  });
  if (seeds.length === 0) return null;
  try {
    const [{ difference, low, high, p }] = compareModels([toModelOutcomes(group), toModelOutcomes(baseline)]) as [
      ReturnType<typeof compareModels>[number],
    ];
    return {
      value: difference,
      low,
      high,
      p: p.mcNemar ?? p.bootstrap,
      test: p.mcNemar === null ? "bootstrap" : "McNemar",
    };
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}
