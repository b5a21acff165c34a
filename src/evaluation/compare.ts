import { UserError } from "../errors.js";
import { Rng } from "../tensor/random.js";
import { describePower, holmCorrection, mcNemar, mean, pairedBootstrap, pairedTTest } from "./statistics.js";

/** Whether a model was right on each example, by the example's id. */
export type ExampleOutcomes = ReadonlyMap<string, boolean>;

/** One side of a comparison: a name, and for every seed what was measured (clean, or an attack's name). */
export interface ModelOutcomes {
  readonly name: string;
  readonly outcomesPerSeed: readonly ReadonlyMap<string, ExampleOutcomes>[];
  /** Which seeds these are, where that is known. */
  readonly seeds?: readonly number[];
}

/** Two models on one measure. */
export interface MetricComparison {
  readonly measure: string;
  readonly examples: number;
  readonly seeds: number;
  /** Accuracies, means over the seeds. */
  readonly first: number;
  readonly second: number;
  /** The first's lead and its 95 % interval, by a paired bootstrap over seeds and examples. */
  readonly difference: number;
  readonly low: number;
  readonly high: number;
  readonly p: {
    readonly bootstrap: number;
    /** The exact test on the examples that only one of two gets right; one seed only. */
    readonly mcNemar: number | null;
    /** One-tailed, that the better one's accuracy is larger over the seeds; several seeds only. */
    readonly tTest: number | null;
    /** What decides: McNemar's with one seed, else the bootstrap's, corrected for the number of measures (Holm). */
    readonly corrected: number;
  };
  readonly better: "first" | "second" | null;
  /** The finding in a sentence. */
  readonly verdict: string;
}

const significanceLevel = 0.05;

/** The runs of both sides by the seeds that both have, and the seeds that only one has. A single run each is compared as it is. */
export function alignSeeds(
  first: ModelOutcomes,
  second: ModelOutcomes,
): { first: ModelOutcomes; second: ModelOutcomes; leftOut: number[] } {
  const [ours, theirs] = [first.seeds, second.seeds];
  if (!ours || !theirs || (ours.length === 1 && theirs.length === 1)) return { first, second, leftOut: [] };
  const shared = ours.filter((number) => theirs.includes(number));
  if (shared.length === 0)
    throw new UserError(
      `${first.name} has seeds ${ours.join(", ")}, ${second.name} has ${theirs.join(", ")}: none in common; train both with the same seeds`,
    );
  const pickSeeds = (side: ModelOutcomes, numbers: readonly number[]): ModelOutcomes => ({
    name: side.name,
    outcomesPerSeed: shared.map((number) => side.outcomesPerSeed[numbers.indexOf(number)]!),
    seeds: shared,
  });
  const leftOut = [...new Set([...ours, ...theirs])].filter((number) => !shared.includes(number)).sort((a, b) => a - b);
  return { first: pickSeeds(first, ours), second: pickSeeds(second, theirs), leftOut };
}

/** Compares two models on every measure that both have on the same examples, seed by seed and example by example. */
export function compareModels(first: ModelOutcomes, second: ModelOutcomes, seed = 0): MetricComparison[] {
  if (first.outcomesPerSeed.length !== second.outcomesPerSeed.length)
    throw new UserError(
      `${first.name} has ${first.outcomesPerSeed.length} run(s), ${second.name} has ${second.outcomesPerSeed.length}; compare as many of one as of the other`,
    );
  const shared = listSharedMetrics(first, second);
  const apart = metricsWithoutCommonExamples(first, second);
  const measures = apart.length < shared.length ? shared.filter((measure) => !apart.includes(measure)) : shared;
  const rng = new Rng(seed);
  const measured = measures.map((measure) => compareMetric(measure, first, second, rng.fork("compare", measure)));
  const corrected = holmCorrection(measured.map(({ p }) => p.mcNemar ?? p.bootstrap));
  return measured.map((comparison, i) => {
    const p = { ...comparison.p, corrected: corrected[i]! };
    const better = p.corrected >= significanceLevel ? null : comparison.difference > 0 ? "first" : "second";
    return { ...comparison, p, better, verdict: formatVerdict({ ...comparison, p, better }, first.name, second.name) };
  });
}

/** Measures that both sides have, but on other examples, as a run's report and another's journals: they say nothing together. */
export function metricsWithoutCommonExamples(first: ModelOutcomes, second: ModelOutcomes): string[] {
  return listSharedMetrics(first, second).filter((measure) => findCommonExamples(measure, first, second).length === 0);
}

function findCommonExamples(measure: string, first: ModelOutcomes, second: ModelOutcomes): string[] {
  const [one, ...others] = [...first.outcomesPerSeed, ...second.outcomesPerSeed].map(
    (outcomes) => outcomes.get(measure)!,
  );
  return [...one!.keys()].filter((id) => others.every((table) => table.has(id)));
}

function listSharedMetrics(first: ModelOutcomes, second: ModelOutcomes): string[] {
  const has = (side: ModelOutcomes, measure: string) => side.outcomesPerSeed.every((outcomes) => outcomes.has(measure));
  const names = [...new Set(first.outcomesPerSeed.flatMap((outcomes) => [...outcomes.keys()]))];
  const shared = names.filter((measure) => has(first, measure) && has(second, measure));
  if (shared.length > 0) return shared;
  const list = (side: ModelOutcomes) =>
    [...new Set(side.outcomesPerSeed.flatMap((outcomes) => [...outcomes.keys()]))].join(", ") || "nothing";
  throw new UserError(
    `nothing was measured on both: ${first.name} has ${list(first)}, ${second.name} has ${list(second)}; run the same attacks on both`,
  );
}

function compareMetric(
  measure: string,
  first: ModelOutcomes,
  second: ModelOutcomes,
  rng: Rng,
): Omit<MetricComparison, "better" | "verdict" | "p"> & { p: Omit<MetricComparison["p"], "corrected"> } {
  const ids = findCommonExamples(measure, first, second);
  if (ids.length === 0)
    throw new UserError(
      `${measure}: ${first.name} and ${second.name} have no example in common; use the same --task, --num-examples and --seed`,
    );
  const rows = (side: ModelOutcomes) =>
    side.outcomesPerSeed.map((outcomes) => Uint8Array.from(ids, (id) => Number(outcomes.get(measure)!.get(id))));
  const [ours, theirs] = [rows(first), rows(second)];
  const { difference, low, high, p } = pairedBootstrap(ours, theirs, rng);
  const [scores, others] = [ours.map(mean), theirs.map(mean)];
  const only = (a: Uint8Array, b: Uint8Array) => a.filter((value, i) => value > b[i]!).length;
  const single = ours.length === 1;
  const [higher, lower] = difference >= 0 ? [scores, others] : [others, scores];
  return {
    measure,
    examples: ids.length,
    seeds: ours.length,
    first: mean(scores),
    second: mean(others),
    difference,
    low,
    high,
    p: {
      bootstrap: p,
      mcNemar: single ? mcNemar(only(ours[0]!, theirs[0]!), only(theirs[0]!, ours[0]!)).exact : null,
      tTest: single ? null : pairedTTest(higher, lower).p,
    },
  };
}

function formatVerdict(comparison: Omit<MetricComparison, "verdict">, firstName: string, secondName: string): string {
  const { measure, examples, seeds, first, second, difference, low, high, p, better } = comparison;
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
  const points = (value: number) => (100 * value).toFixed(1);
  const on = `on ${examples} examples${seeds > 1 ? ` and ${seeds} seeds` : ""}`;
  const numbers = `${percent(first)} against ${percent(second)} ${on}, ${points(difference)} points (95 %: ${points(low)} to ${points(high)}; p ${formatPValue(p.corrected)})`;
  if (better === null) {
    const discordant = estimateDiscordantFraction(comparison);
    return `${measure}: ${firstName} and ${secondName} cannot be told apart: ${numbers}; ${describePower(examples, { discordant })}`;
  }
  const [winner, loser] = better === "first" ? [firstName, secondName] : [secondName, firstName];
  return `${measure}: ${winner} is better than ${loser}: ${numbers}`;
}

/** The share of examples that only one gets right, as the width of the interval tells it; never so small that nothing is left to find. */
function estimateDiscordantFraction({
  examples,
  low,
  high,
}: Pick<MetricComparison, "examples" | "low" | "high">): number {
  const error = (high - low) / (2 * 1.96);
  return Math.max(1 / examples, Math.min(1, error * error * examples));
}

function formatPValue(p: number): string {
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}
