import { capitalize, formatCount, formatPercent, formatPoints } from "../../base/format.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import {
  computeDifferenceBounds,
  estimateNeededExamples,
  type GateVerdict,
  judgeDrop,
  type PairedCounts,
} from "../../evaluation/non-inferiority.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import type { CertifiedCount } from "../measure/certified.js";
import type { Measurement } from "./gate-lock.js";

/** One requirement of a gate, and whether the candidate meets it. */
export interface GateCheck {
  /** "clean accuracy", "accuracy under pwws", "accuracy under pwws of at least 60%". */
  readonly name: string;
  readonly attack: string | null;
  readonly verdict: GateVerdict;
  /** Null if the model is degenerate, so that no number counts. */
  readonly candidate: number | null;
  /** Null for a requirement on the candidate alone. */
  readonly baseline: number | null;
  /** The number of texts that both numbers are about. */
  readonly examples: number;
  /** One-sided 95% bounds: of the difference, or of the accuracy of the candidate. */
  readonly low: number | null;
  readonly high: number | null;
  /** The largest drop, or the smallest accuracy, as a fraction. */
  readonly limit: number | null;
  readonly reason: string;
}

/** True if the candidate and the baseline classify a text correctly. */
type PairedOutcome = readonly [candidate: boolean, baseline: boolean];
type Pairs = ReadonlyMap<string, { readonly baseline: Measurement; readonly candidate: Measurement }>;

/** Facts about the models besides the attacked texts. */
export interface GateFacts {
  /** Correct answers (1) on the whole split; null: only those on the attacked texts are known. */
  readonly clean: { readonly candidate: string; readonly baseline: string } | null;
  readonly certified: CertifiedCount | null;
  /** The reason why the candidate is degenerate; null if it is not. A few texts may not tell. */
  readonly degeneracy: { readonly reason: string; readonly isCertain: boolean } | null;
}

/** The requirements of a gate, as fractions. */
interface GateLimits {
  readonly maxDrop: number;
  readonly maxCleanDrop: number;
  readonly minRobust: number | null;
  readonly minCertified: number | null;
}

/** Judges clean text and each attack. A degenerate candidate fails whatever its accuracy is. */
export function judgeGate(
  pairs: Pairs,
  attacks: readonly string[],
  { maxDrop, maxCleanDrop, minRobust, minCertified }: GateLimits,
  { clean, certified, degeneracy }: GateFacts,
): GateCheck[] {
  const select = (attack: string | null): PairedOutcome[] =>
    [...pairs.values()].map(({ candidate, baseline }) => [isRight(candidate, attack), isRight(baseline, attack)]);
  const whole =
    clean && [...clean.candidate].map((value, i): PairedOutcome => [value === "1", clean.baseline[i] === "1"]);
  return [
    ...(degeneracy === null ? [] : [rejectDegenerate(degeneracy, whole?.length ?? pairs.size)]),
    compare(whole ?? select(null), null, maxCleanDrop),
    ...attacks.flatMap((attack) => [
      compare(select(attack), attack, maxDrop),
      ...(minRobust === null ? [] : [requireRobust(pairs, attack, minRobust)]),
    ]),
    ...(minCertified === null || certified === null ? [] : [requireCertified(pairs.size, certified, minCertified)]),
  ];
}

/** No attack changes the answers of a degenerate model, so it looks robust. */
function rejectDegenerate({ reason, isCertain }: NonNullable<GateFacts["degeneracy"]>, examples: number): GateCheck {
  const verdict = isCertain ? "regressed" : "unresolved";
  return {
    name: "a candidate that is not degenerate",
    ...{ attack: null, verdict, candidate: null, baseline: null, examples, low: null, high: null },
    limit: null,
    reason: isCertain
      ? `The candidate is degenerate: ${reason}. Its accuracy under attack says nothing about robustness.`
      : `The candidate may be degenerate: ${reason}. Name the dataset with --data, or write a lock with more texts.`,
  };
}

function isRight(measurement: Measurement, attack: string | null): boolean {
  return attack === null ? measurement.isCorrect : measurement.attacks[attack]!.isRobust;
}

function compare(outcomes: readonly PairedOutcome[], attack: string | null, margin: number): GateCheck {
  let [onlyFirst, onlySecond, both] = [0, 0, 0];
  for (const [ours, theirs] of outcomes) {
    if (ours && theirs) both++;
    else if (ours) onlyFirst++;
    else if (theirs) onlySecond++;
  }
  const examples = outcomes.length;
  const counts: PairedCounts = { onlyFirst, onlySecond, examples };
  const { difference, low, high } = computeDifferenceBounds(counts);
  const verdict = judgeDrop({ low, high }, margin);
  const [candidate, baseline] = [(both + onlyFirst) / examples, (both + onlySecond) / examples];
  const name = attack === null ? "clean accuracy" : describeMetric(attack).title;
  const change =
    `${name} went from ${formatPercent(baseline)} to ${formatPercent(candidate)} on the same ` +
    `${formatCount(examples)} texts (${formatPoints(difference)} points; ${onlySecond} texts are newly wrong, ` +
    `${onlyFirst} newly right)`;
  const allowed = `a drop of ${formatPoints(margin)} points is allowed`;
  const reasons: Record<GateVerdict, string> = {
    passed: `The drop is at most ${formatPoints(Math.max(0, -low))} points with 95% certainty, and ${allowed}.`,
    regressed: `The drop is at least ${formatPoints(-high)} points with 95% certainty, and ${allowed}.`,
    unresolved:
      `With 95% certainty the change is between ${formatPoints(low)} and ${formatPoints(high)} points, and ${allowed}: ` +
      describeNeededExamples(counts, margin),
  };
  return {
    ...{ name, attack, verdict, candidate, baseline, examples, low, high, limit: margin },
    reason: `${capitalize(change)}. ${reasons[verdict]}`,
  };
}

function describeNeededExamples(counts: PairedCounts, margin: number): string {
  const needed = estimateNeededExamples(counts, margin);
  if (Number.isFinite(needed) && needed > counts.examples)
    return `${formatCount(counts.examples)} texts are too few to resolve this. About ${formatCount(needed)} would do.`;
  return (
    `${formatCount(counts.examples)} texts are too few to resolve this. The drop is near the limit: ` +
    "use several times as many texts, or a larger limit."
  );
}

function requireRobust(pairs: Pairs, attack: string, limit: number): GateCheck {
  const robust = [...pairs.values()].filter(({ candidate }) => isRight(candidate, attack)).length;
  return { ...requireAccuracy(describeMetric(attack).title, robust, pairs.size, limit), attack };
}

function requireCertified(total: number, { certified, edits }: CertifiedCount, limit: number): GateCheck {
  const name = `certified accuracy under ${edits} word ${edits === 1 ? "edit" : "edits"}`;
  return { ...requireAccuracy(name, certified, total, limit), attack: null };
}

function requireAccuracy(name: string, count: number, total: number, limit: number): Omit<GateCheck, "attack"> {
  const candidate = count / total;
  // A two-sided interval of 90% has one-sided bounds of 95%.
  const { low, high } = wilsonInterval(count, total, 0.9);
  const verdict: GateVerdict = low >= limit ? "passed" : high < limit ? "regressed" : "unresolved";
  const range = `${formatPercent(low)} to ${formatPercent(high)} with 95% certainty on each side`;
  const reasons: Record<GateVerdict, string> = {
    passed: `at least ${formatPercent(limit)} is required`,
    regressed: `at least ${formatPercent(limit)} is required, which it misses`,
    unresolved: `${formatPercent(limit)} is required, which ${formatCount(total)} texts are too few to decide`,
  };
  return {
    name: `${name} of at least ${formatPercent(limit)}`,
    ...{ verdict, candidate, baseline: null, examples: total, low, high, limit },
    reason: `${capitalize(name)} is ${formatPercent(candidate)} (${range}); ${reasons[verdict]}.`,
  };
}

export function formatCheck({ name, baseline, candidate, examples, low, high, limit, verdict }: GateCheck): string[] {
  const texts = formatCount(examples);
  if (candidate === null || low === null || high === null || limit === null)
    return [name, "–", "–", texts, "–", "–", verdict];
  const isAlone = baseline === null;
  return [
    ...[name, isAlone ? "–" : formatPercent(baseline), formatPercent(candidate), texts],
    isAlone ? `${formatPercent(low)} to ${formatPercent(high)}` : `${signed(low)} to ${signed(high)} points`,
    isAlone ? `at least ${formatPercent(limit)}` : `drop ≤ ${formatPoints(limit)} points`,
    verdict,
  ];
}

const signed = (fraction: number): string =>
  formatPoints(fraction).match(/^(-|0\.0$)/) ? formatPoints(fraction) : `+${formatPoints(fraction)}`;

/** The verdict of all checks together: one regression is enough. */
export function combineVerdicts(checks: readonly GateCheck[]): GateVerdict {
  if (checks.some(({ verdict }) => verdict === "regressed")) return "regressed";
  return checks.some(({ verdict }) => verdict === "unresolved") ? "unresolved" : "passed";
}
