import {
  computeDifferenceBounds,
  estimateNeededExamples,
  type GateVerdict,
  judgeDrop,
  type PairedCounts,
} from "../../evaluation/non-inferiority.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import { formatCount, formatPercent } from "../../format.js";
import type { CertifiedCandidate } from "./certify-candidate.js";
import type { Measurement } from "./gate-lock.js";

/** One requirement of a gate, and whether the candidate meets it. */
export interface GateCheck {
  /** "clean accuracy", "accuracy under pwws", "accuracy under pwws of at least 60%". */
  readonly name: string;
  /** Null for clean text. */
  readonly attack: string | null;
  readonly verdict: GateVerdict;
  readonly candidate: number;
  /** Null for a requirement on the candidate alone. */
  readonly baseline: number | null;
  /** One-sided 95% bounds: of the difference, or of the accuracy of the candidate. */
  readonly low: number;
  readonly high: number;
  /** The largest drop, or the smallest accuracy, as a fraction. */
  readonly limit: number;
  /** The reason in a sentence or two. */
  readonly reason: string;
}

type Pairs = ReadonlyMap<string, { readonly baseline: Measurement; readonly candidate: Measurement }>;

export interface GateLimits {
  /** As fractions. */
  readonly maxDrop: number;
  readonly maxCleanDrop: number;
  readonly minRobust: number | null;
  readonly minCertified: number | null;
}

/** Judges clean text and each attack. */
export function judgeGate(
  pairs: Pairs,
  attacks: readonly string[],
  limits: GateLimits,
  certified: CertifiedCandidate | null = null,
): GateCheck[] {
  const { maxDrop, maxCleanDrop, minRobust, minCertified } = limits;
  return [
    compare(pairs, null, maxCleanDrop),
    ...attacks.flatMap((attack) => [
      compare(pairs, attack, maxDrop),
      ...(minRobust === null ? [] : [requireRobust(pairs, attack, minRobust)]),
    ]),
    ...(minCertified === null || certified === null ? [] : [requireCertified(pairs.size, certified, minCertified)]),
  ];
}

const points = (fraction: number): string => (100 * fraction).toFixed(1).replace(/^-(0\.0)$/, "$1");

function isRight(measurement: Measurement, attack: string | null): boolean {
  return attack === null ? measurement.isCorrect : measurement.attacks[attack]!.isRobust;
}

/** A non-inferiority test on the same texts. */
function compare(pairs: Pairs, attack: string | null, margin: number): GateCheck {
  let [onlyFirst, onlySecond, both] = [0, 0, 0];
  for (const { candidate, baseline } of pairs.values()) {
    const [ours, theirs] = [isRight(candidate, attack), isRight(baseline, attack)];
    if (ours && theirs) both++;
    else if (ours) onlyFirst++;
    else if (theirs) onlySecond++;
  }
  const counts: PairedCounts = { onlyFirst, onlySecond, examples: pairs.size };
  const { difference, low, high } = computeDifferenceBounds(counts);
  const verdict = judgeDrop({ low, high }, margin);
  const [candidate, baseline] = [(both + onlyFirst) / pairs.size, (both + onlySecond) / pairs.size];
  const name = attack === null ? "clean accuracy" : `accuracy under ${attack}`;
  const change =
    `${name} went from ${formatPercent(baseline)} to ${formatPercent(candidate)} on the same ` +
    `${formatCount(pairs.size)} texts (${points(difference)} points; ${onlySecond} texts are newly wrong, ` +
    `${onlyFirst} newly right)`;
  const allowed = `a drop of ${points(margin)} points is allowed`;
  const reasons: Record<GateVerdict, string> = {
    passed: `The drop is at most ${points(Math.max(0, -low))} points with 95% certainty, and ${allowed}.`,
    regressed: `The drop is at least ${points(-high)} points with 95% certainty, and ${allowed}.`,
    unresolved:
      `With 95% certainty the change is between ${points(low)} and ${points(high)} points, and ${allowed}: ` +
      describeNeededExamples(counts, margin),
  };
  return {
    ...{ name, attack, verdict, candidate, baseline, low, high, limit: margin },
    reason: `${capitalize(change)}. ${reasons[verdict]}`,
  };
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
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

/** The accuracy of the candidate under an attack must be at least `limit`. */
function requireRobust(pairs: Pairs, attack: string, limit: number): GateCheck {
  const robust = [...pairs.values()].filter(({ candidate }) => isRight(candidate, attack)).length;
  return { ...requireAccuracy(`accuracy under ${attack}`, robust, pairs.size, limit), attack };
}

/** The certified accuracy of the candidate must be at least `limit`. */
function requireCertified(total: number, { certified, edits }: CertifiedCandidate, limit: number): GateCheck {
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
    ...{ verdict, candidate, baseline: null, low, high, limit },
    reason: `${capitalize(name)} is ${formatPercent(candidate)} (${range}); ${reasons[verdict]}.`,
  };
}

/** The verdict of all checks together: one regression is enough. */
export function combineVerdicts(checks: readonly GateCheck[]): GateVerdict {
  if (checks.some(({ verdict }) => verdict === "regressed")) return "regressed";
  return checks.some(({ verdict }) => verdict === "unresolved") ? "unresolved" : "passed";
}
