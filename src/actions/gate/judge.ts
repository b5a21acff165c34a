import {
  computeDifferenceBounds,
  estimateNeededExamples,
  type GateVerdict,
  judgeDrop,
  type PairedCounts,
} from "../../evaluation/non-inferiority.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import { formatCount, formatPercent } from "../../format.js";
import type { Measurement } from "./gate-lock.js";

/** One requirement of a gate, and whether the candidate meets it. */
export interface GateCheck {
  /** "clean accuracy", "accuracy under pwws", "accuracy under pwws of at least 60%". */
  readonly name: string;
  /** Null for clean text. */
  readonly attack: string | null;
  readonly verdict: GateVerdict;
  /** Null if the model is not valid, so that no number counts. */
  readonly candidate: number | null;
  /** Null for a requirement on the candidate alone. */
  readonly baseline: number | null;
  /** The texts that both numbers are about. */
  readonly examples: number;
  /** One-sided 95% bounds: of the difference, or of the accuracy of the candidate. */
  readonly low: number | null;
  readonly high: number | null;
  /** The largest drop, or the smallest accuracy, as a fraction. */
  readonly limit: number | null;
  /** The reason in a sentence or two. */
  readonly reason: string;
}

type Pairs = ReadonlyMap<string, { readonly baseline: Measurement; readonly candidate: Measurement }>;

/** Whether the candidate and the baseline classify a text correctly. */
type PairedOutcome = readonly [candidate: boolean, baseline: boolean];

/** Why the models of a gate are degenerate; null if they are not. */
export interface GateDegeneracies {
  readonly candidate: string | null;
  readonly baseline: string | null;
}

export interface GateLimits {
  /** As fractions. */
  readonly maxDrop: number;
  readonly maxCleanDrop: number;
  readonly minRobust: number | null;
}

/**
 * Judges clean text and each attack. A degenerate candidate fails whatever its accuracy is, and
 * nothing is compared with a degenerate baseline. `clean` has the outcomes on the whole split; null:
 * only those of the attacked texts are known.
 */
export function judgeGate(
  pairs: Pairs,
  attacks: readonly string[],
  limits: GateLimits,
  clean: readonly PairedOutcome[] | null,
  degeneracies: GateDegeneracies,
): GateCheck[] {
  const { maxDrop, maxCleanDrop, minRobust } = limits;
  const compare = (attack: string | null, margin: number): GateCheck[] => {
    if (degeneracies.baseline !== null) return [];
    const outcomes = [...pairs.values()].map(
      ({ candidate, baseline }): PairedOutcome => [isRight(candidate, attack), isRight(baseline, attack)],
    );
    return [compareOutcomes(attack === null ? (clean ?? outcomes) : outcomes, attack, margin)];
  };
  return [
    ...judgeValidity(degeneracies, pairs.size),
    ...compare(null, maxCleanDrop),
    ...attacks.flatMap((attack) => [
      ...compare(attack, maxDrop),
      ...(minRobust === null ? [] : [requireAccuracy(pairs, attack, minRobust)]),
    ]),
  ];
}

/** A degenerate model looks robust, because no attack changes its answer. */
function judgeValidity({ candidate, baseline }: GateDegeneracies, examples: number): GateCheck[] {
  const create = (who: string, verdict: GateVerdict, reason: string): GateCheck => ({
    name: `a ${who} that is not degenerate`,
    ...{ attack: null, verdict, candidate: null, baseline: null, examples, low: null, high: null, limit: null },
    reason: `The ${who} is degenerate: ${reason}. ${
      verdict === "regressed"
        ? "Its accuracy under attack says nothing about robustness."
        : "Nothing can be concluded from a comparison with it. Choose another baseline."
    }`,
  });
  return [
    ...(candidate === null ? [] : [create("candidate", "regressed", candidate)]),
    ...(baseline === null ? [] : [create("baseline", "unresolved", baseline)]),
  ];
}

const points = (fraction: number): string => (100 * fraction).toFixed(1).replace(/^-(0\.0)$/, "$1");

function isRight(measurement: Measurement, attack: string | null): boolean {
  return attack === null ? measurement.isCorrect : measurement.attacks[attack]!.isRobust;
}

/** A non-inferiority test on the same texts. */
function compareOutcomes(outcomes: readonly PairedOutcome[], attack: string | null, margin: number): GateCheck {
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
  const name = attack === null ? "clean accuracy" : `accuracy under ${attack}`;
  const change =
    `${name} went from ${formatPercent(baseline)} to ${formatPercent(candidate)} on the same ` +
    `${formatCount(examples)} texts (${points(difference)} points; ${onlySecond} texts are newly wrong, ` +
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
    ...{ name, attack, verdict, candidate, baseline, examples, low, high, limit: margin },
    reason: `${change.charAt(0).toUpperCase()}${change.slice(1)}. ${reasons[verdict]}`,
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

/** The accuracy of the candidate must be at least `limit`. */
function requireAccuracy(pairs: Pairs, attack: string, limit: number): GateCheck {
  const robust = [...pairs.values()].filter(({ candidate }) => isRight(candidate, attack)).length;
  const candidate = robust / pairs.size;
  // A two-sided interval of 90% has one-sided bounds of 95%.
  const { low, high } = wilsonInterval(robust, pairs.size, 0.9);
  const verdict: GateVerdict = low >= limit ? "passed" : high < limit ? "regressed" : "unresolved";
  const range = `${formatPercent(low)} to ${formatPercent(high)} with 95% certainty on each side`;
  const reasons: Record<GateVerdict, string> = {
    passed: `at least ${formatPercent(limit)} is required`,
    regressed: `at least ${formatPercent(limit)} is required, which it misses`,
    unresolved: `${formatPercent(limit)} is required, which ${formatCount(pairs.size)} texts are too few to decide`,
  };
  return {
    name: `accuracy under ${attack} of at least ${formatPercent(limit)}`,
    ...{ attack, verdict, candidate, baseline: null, examples: pairs.size, low, high, limit },
    reason: `Accuracy under ${attack} is ${formatPercent(candidate)} (${range}); ${reasons[verdict]}.`,
  };
}

/** A check as cells: name, baseline, candidate, texts, bounds, requirement and verdict. */
export function formatCheck({ name, baseline, candidate, examples, low, high, limit, verdict }: GateCheck): string[] {
  const texts = formatCount(examples);
  if (candidate === null || low === null || high === null || limit === null)
    return [name, "–", "–", texts, "–", "–", verdict];
  const isAlone = baseline === null;
  return [
    ...[name, isAlone ? "–" : formatPercent(baseline), formatPercent(candidate), texts],
    isAlone ? `${formatPercent(low)} to ${formatPercent(high)}` : `${signed(low)} to ${signed(high)} points`,
    isAlone ? `at least ${formatPercent(limit)}` : `drop ≤ ${points(limit)} points`,
    verdict,
  ];
}

const signed = (fraction: number): string =>
  points(fraction).match(/^(-|0\.0$)/) ? points(fraction) : `+${points(fraction)}`;

/** The verdict of all checks together: one regression is enough. */
export function combineVerdicts(checks: readonly GateCheck[]): GateVerdict {
  if (checks.some(({ verdict }) => verdict === "regressed")) return "regressed";
  return checks.some(({ verdict }) => verdict === "unresolved") ? "unresolved" : "passed";
}
