import { holm, type Interval, mcNemar, mean, pairedBootstrap, standardDeviation, wilson } from "../evaluation/statistics.js";
import { Rng } from "../tensor/random.js";
import type { Group, TaskGroups } from "./groups.js";
import { type AttackRead, sameExamples } from "./read-attacks.js";
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
  /** Share of the examples that only one of the two got right. */
  readonly discordant: number;
}

export interface ComparisonRow {
  readonly group: Group;
  /** On the split that reports. */
  readonly accuracy: Measured | null;
  /** Before any change, on the examples that were attacked. */
  readonly clean: Measured | null;
  /** Under each attack, by name. */
  readonly attacked: ReadonlyMap<string, Measured>;
  /** An example counts as right only where every attack failed; null of fewer than two attacks. */
  readonly worst: Measured | null;
}

/** Chance below which a difference is marked. */
export const significance = 0.05;

type Scores = Uint8Array;
type Judge = (run: ReportRun) => { readonly read: AttackRead; readonly right: Scores } | null;

/** Puts the groups of a task beside one another, each against the baseline on the same examples and seeds. */
export function compareGroups({ groups, baseline }: TaskGroups): ComparisonRow[] {
  const attacks = [...new Set(groups.flatMap(({ runs }) => runs.flatMap(({ attacks: { journals } }) => [...journals.keys()])))];
  const tests: { measured: { difference: Difference | null }; p: number }[] = [];
  const measure = (group: Group, judge: Judge): Measured | null => {
    const rows = group.runs.map(judge);
    if (rows.some((row) => row === null)) return null;
    const scores = rows.map((row) => row!.right);
    const measured = { ...measureScores(scores), difference: group === baseline ? null : differ(group, baseline, judge) };
    if (measured.difference) tests.push({ measured, p: measured.difference.p });
    return measured;
  };
  const made = groups.map((group) => ({
    group,
    accuracy: measureReports(group),
    clean: measure(group, cleanJudge),
    attacked: new Map(
      attacks.flatMap((name) => {
        const measured = measure(group, attackJudge(name));
        return measured ? [[name, measured] as const] : [];
      }),
    ),
    worst: attacks.length > 1 ? measure(group, worstJudge) : null,
  }));
  const corrected = holm(tests.map(({ p }) => p));
  tests.forEach(({ measured }, i) => {
    measured.difference = { ...measured.difference!, p: corrected[i]! };
  });
  return made;
}

const judgeBy =
  (readOf: (run: ReportRun) => AttackRead | undefined, isRight: (run: ReportRun, read: AttackRead, index: number) => boolean): Judge =>
  (run) => {
    const read = readOf(run);
    return read ? { read, right: Uint8Array.from(read.results, (_, i) => Number(isRight(run, read, i))) } : null;
  };
const firstRead = ({ attacks: { journals } }: ReportRun): AttackRead | undefined => journals.values().next().value;
const attackJudge = (name: string): Judge =>
  judgeBy(
    ({ attacks: { journals } }) => journals.get(name),
    (_, read, i) => read.results[i]!.outcome === "failed",
  );
const cleanJudge = judgeBy(firstRead, (_, read, i) => read.results[i]!.outcome !== "skipped");
const worstJudge = judgeBy(
  (run) => (run.attacks.together ? firstRead(run) : undefined),
  ({ attacks: { journals } }, _, i) => [...journals.values()].every((read) => read.results[i]!.outcome === "failed"),
);

/** Over seeds, both the seeds' luck and the examples' counts. */
function measureScores(scores: readonly Scores[]): Omit<Measured, "difference"> {
  const shares = scores.map(mean);
  const [first] = scores;
  const examples = first?.length ?? 0;
  const alike = scores.every((row) => row.length === examples);
  const hits = first?.reduce((sum, value) => sum + value, 0) ?? 0;
  const interval =
    scores.length === 1
      ? wilson(hits, examples)
      : alike
        ? pairedBootstrap(
            scores,
            scores.map((row) => new Uint8Array(row.length)),
            new Rng("report"),
            { samples },
          )
        : null;
  return { value: mean(shares), examples, interval, spread: spreadOf(shares) };
}

function measureReports({ runs }: Group): Measured | null {
  const reports = runs.flatMap(({ results }) => (results ? [results.report] : []));
  const [first] = reports;
  if (!first) return null;
  const values = reports.map(({ accuracy }) => accuracy);
  const [low, high] = first.interval;
  return {
    value: mean(values),
    examples: first.examples,
    interval: reports.length === 1 ? { low, high } : null,
    spread: spreadOf(values),
    difference: null,
  };
}

function spreadOf(values: readonly number[]): number | null {
  return values.length > 1 ? standardDeviation(values) : null;
}

const samples = 4000;

/** The seeds that both have, on examples that are the same for all of them. */
function differ(group: Group, baseline: Group, judge: Judge): Difference | null {
  const pairs = group.runs.flatMap((run) => {
    const other = baseline.runs.find(({ config }) => config.seed === run.config.seed);
    const [first, second] = [judge(run), other ? judge(other) : null];
    return first && second ? [{ first, second }] : [];
  });
  const [reference] = pairs;
  if (!reference || !pairs.every(({ first, second }) => [first, second].every(({ read }) => sameExamples(read, reference.first.read))))
    return null;
  const [ours, theirs] = [pairs.map(({ first }) => first.right), pairs.map(({ second }) => second.right)];
  const count = (isCounted: (own: number, other: number) => boolean): number =>
    ours.reduce((sum, row, seed) => sum + row.filter((own, i) => isCounted(own, theirs[seed]![i]!)).length, 0);
  const [onlyOurs, onlyTheirs] = [count((own, other) => own > other), count((own, other) => own < other)];
  const { difference, low, high, p } = pairedBootstrap(ours, theirs, new Rng("report"), { samples });
  const single = pairs.length === 1;
  return {
    ...{ value: difference, low, high, p: single ? mcNemar(onlyOurs, onlyTheirs).exact : p, test: single ? "McNemar" : "bootstrap" },
    discordant: (onlyOurs + onlyTheirs) / (ours.length * ours[0]!.length),
  };
}
