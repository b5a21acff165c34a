import { UserError } from "../errors.js";
import { compareSides, type Outcomes, type Side } from "../evaluation/compare.js";
import { holm, type Interval, mean, pairedBootstrap, standardDeviation, wilson } from "../evaluation/statistics.js";
import { outcomesOf } from "../runs/compare.js";
import { Rng } from "../tensor/random.js";
import type { Group, TaskGroups } from "./groups.js";
import type { ReportRun } from "./read-run.js";

/** A share with what luck may have done to it. */
export interface Measured {
  readonly value: number;
  readonly examples: number;
  /** 95 %; null where only the spread over seeds is known. */
  readonly interval: Interval | null;
  /** Standard deviation over seeds; null of one. */
  readonly spread: number | null;
  /** How it differs from the baseline's; null where that cannot be tested. */
  readonly difference: Difference | null;
}

/** A difference from the baseline on the same examples. */
export interface Difference extends Interval {
  readonly value: number;
  /** Corrected for all tests of the table (Holm). */
  readonly p: number;
  readonly test: "McNemar" | "bootstrap";
}

/** What a method is measured by: accuracy where it reports, the same before and under each attack, and the worst of all attacks. */
export interface ComparisonRow {
  readonly group: Group;
  readonly measures: ReadonlyMap<string, Measured>;
}

/** Chance below which a difference is marked. */
export const significance = 0.05;
/** Names of measures that are no attacks. */
export const reported = "reported";
export const beforeAttack = "before attack";
export const worstCase = "worst case";

/** Puts the groups of a task beside one another, each against the baseline on the same examples and seeds. */
export function compareGroups({ groups, baseline }: TaskGroups): ComparisonRow[] {
  const sides = new Map(groups.map((group) => [group, group.runs.map(measuresOf)]));
  const tests: { p: number }[] = [];
  const rows = groups.map((group) => {
    const own = sides.get(group)!;
    const names = [...new Set(own.flatMap((measures) => [...measures.keys()]))];
    const measured = names.flatMap((name): [string, Measured][] => {
      const seeds = own.flatMap((measures) => measures.get(name) ?? []);
      if (seeds.length < own.length) return [];
      const difference = group === baseline ? null : differ(name, group, baseline, sides);
      if (difference) tests.push(difference);
      return [[name, { ...measureSeeds(seeds), difference }]];
    });
    return { group, measures: new Map([...reportOnly(group), ...measured]) };
  });
  const corrected = holm(tests.map(({ p }) => p));
  tests.forEach((test, i) => {
    test.p = corrected[i]!;
  });
  return rows;
}

/** What was measured in a run, text by text. */
function measuresOf({ results, attacks: { journals, together } }: ReportRun): ReadonlyMap<string, Outcomes> {
  const reads = [...journals];
  const outcomes = (isRight: (index: number) => boolean): Outcomes => new Map(reads[0]![1].results.map(({ id }, i) => [id, isRight(i)]));
  const own = results && outcomesOf(results.report);
  return new Map<string, Outcomes>([
    ...(own ? [[reported, own] as const] : []),
    ...(reads.length > 0 ? [[beforeAttack, outcomes((i) => reads[0]![1].results[i]!.outcome !== "skipped")] as const] : []),
    ...reads.map(([name, read]) => [name, new Map(read.results.map(({ id, outcome }) => [id, outcome === "failed"]))] as const),
    ...(reads.length > 1 && together
      ? [[worstCase, outcomes((i) => reads.every(([, read]) => read.results[i]!.outcome === "failed"))] as const]
      : []),
  ]);
}

const samples = 4000;

/** Over seeds, both the seeds' luck and the examples' counts. */
function measureSeeds(seeds: readonly Outcomes[]): Omit<Measured, "difference"> {
  const scores = seeds.map((outcomes) => Uint8Array.from(outcomes.values(), Number));
  const shares = scores.map((row) => mean(row));
  const [first] = scores as [Uint8Array];
  const alike = scores.every((row) => row.length === first.length);
  const nothing = scores.map((row) => new Uint8Array(row.length));
  const interval =
    scores.length === 1
      ? wilson(first.filter(Boolean).length, first.length)
      : alike
        ? pairedBootstrap(scores, nothing, new Rng("report"), { samples })
        : null;
  return { value: mean(shares), examples: first.length, interval, spread: spreadOf(shares) };
}

/** Results that do not tell text by text have an accuracy all the same. */
function reportOnly({ runs }: Group): [string, Measured][] {
  const reports = runs.flatMap(({ results }) => (results ? [results.report] : []));
  const [first] = reports;
  if (!first) return [];
  const values = reports.map(({ accuracy }) => accuracy);
  const [low, high] = first.interval;
  const interval = reports.length === 1 ? { low, high } : null;
  return [[reported, { value: mean(values), examples: first.examples, interval, spread: spreadOf(values), difference: null }]];
}

function spreadOf(values: readonly number[]): number | null {
  return values.length > 1 ? standardDeviation(values) : null;
}

type Sides = ReadonlyMap<Group, readonly ReadonlyMap<string, Outcomes>[]>;

/** On the seeds that both have; null where they have no texts in common. */
function differ(
  name: string,
  group: Group,
  baseline: Group,
  sides: Sides,
): { -readonly [key in keyof Difference]: Difference[key] } | null {
  const seeds = group.runs.map(({ config }) => config.seed).filter((seed) => baseline.runs.some(({ config }) => config.seed === seed));
  const side = (of: Group): Side => ({
    name: of.name,
    seeds: seeds.map((seed) => {
      const outcomes = sides.get(of)![of.runs.findIndex(({ config }) => config.seed === seed)]!.get(name);
      return new Map(outcomes ? [[name, outcomes]] : []);
    }),
  });
  if (seeds.length === 0) return null;
  try {
    const [{ difference, low, high, p }] = compareSides(side(group), side(baseline)) as [ReturnType<typeof compareSides>[number]];
    return { value: difference, low, high, p: p.mcNemar ?? p.bootstrap, test: p.mcNemar === null ? "bootstrap" : "McNemar" };
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}
