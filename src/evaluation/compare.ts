import { z } from "zod";
import { UserError } from "../errors.js";
import { formatPercent } from "../format.js";
import { Rng } from "../tensor/random.js";
import { describePower, holmCorrection, mcNemar, mean, pairedBootstrap, pairedTTest } from "./statistics.js";

/** Whether a model classified each example correctly, by the example's ID. */
export type ExampleOutcomes = ReadonlyMap<string, boolean>;

/**
 * The outcomes of one model: for every seed, the outcomes by metric ("clean", an attack's name, …).
 */
export interface ModelOutcomes {
  readonly name: string;
  readonly outcomesPerSeed: readonly ReadonlyMap<string, ExampleOutcomes>[];
  /** The seeds, if they are known. */
  readonly seeds?: readonly number[];
}

/** Two models on one metric. */
export const metricComparisonSchema = z.object({
  metric: z.string(),
  firstName: z.string(),
  secondName: z.string(),
  examples: z.number(),
  seeds: z.number(),
  /** Accuracy of the first model, averaged over the seeds. */
  first: z.number(),
  /** Accuracy of the second model, averaged over the seeds. */
  second: z.number(),
  /** First minus second, with the 95% CI of a paired bootstrap over seeds and examples. */
  difference: z.number(),
  low: z.number(),
  high: z.number(),
  p: z.object({
    bootstrap: z.number(),
    /** The exact test on the examples that only one model classifies correctly. One seed only. */
    mcNemar: z.number().nullable(),
    /**
     * One-tailed paired t-test over the seeds that the better model is better. Several seeds only.
     */
    tTest: z.number().nullable(),
    /**
     * McNemar's p for one seed, otherwise the bootstrap's p, with Holm's correction over all tests.
     */
    corrected: z.number(),
  }),
  better: z.enum(["first", "second"]).nullable(),
  /** The result in one sentence. */
  verdict: z.string(),
});
export type MetricComparison = z.output<typeof metricComparisonSchema>;

export interface CompareOptions {
  /** Seed of the bootstrap. */
  readonly seed?: number;
  /** Names of random streams that differ from the metric's ID. */
  readonly streamNames?: Readonly<Record<string, string>>;
  /** Called for seeds and metrics that cannot be compared. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

const significanceLevel = 0.05;

/** Random streams of renamed metrics. The name of a stream is part of the results. */
const defaultStreamNames: Readonly<Record<string, string>> = { accuracy: "clean", "worst-case": "worst case" };

/**
 * Compares each of the other models with the first one, on every metric and all examples that both
 * have. P-values are corrected for all tests of the call (Holm).
 */
export function compareModels(models: readonly ModelOutcomes[], options: CompareOptions = {}): MetricComparison[] {
  const [first, ...others] = models;
  if (!first || others.length === 0)
    throw new UserError(`compare: expected two or more models, received ${models.length}`);
  const rng = new Rng(options.seed ?? 0);
  const streamNames = { ...defaultStreamNames, ...options.streamNames };
  const comparisons = others.flatMap((other) => {
    const pair = alignSeeds(first, other, options.onWarning);
    return selectMetrics(pair, options.onWarning).map((metric) =>
      compareMetric(metric, pair, rng.fork("compare", streamNames[metric] ?? metric)),
    );
  });
  const corrected = holmCorrection(comparisons.map(({ p }) => p.mcNemar ?? p.bootstrap));
  return comparisons.map((comparison, i) => {
    const p = { ...comparison.p, corrected: corrected[i]! };
    const better = p.corrected >= significanceLevel ? null : comparison.difference > 0 ? "first" : "second";
    return { ...comparison, p, better, verdict: formatVerdict({ ...comparison, p, better }) };
  });
}

type Pair = readonly [ModelOutcomes, ModelOutcomes];

/** Keeps the seeds that both models have. Two single runs are compared whatever their seeds are. */
function alignSeeds(first: ModelOutcomes, second: ModelOutcomes, onWarning: CompareOptions["onWarning"]): Pair {
  const [{ seeds: ours }, { seeds: theirs }] = [first, second];
  const [numOurs, numTheirs] = [first.outcomesPerSeed.length, second.outcomesPerSeed.length];
  if (!ours || !theirs || (numOurs === 1 && numTheirs === 1)) {
    if (numOurs === numTheirs) return [first, second];
    throw new UserError(
      `${first.name} has ${numOurs} run(s), but ${second.name} has ${numTheirs}. Compare the same number of runs.`,
    );
  }
  const common = ours.filter((seed) => theirs.includes(seed));
  if (common.length === 0)
    throw new UserError(
      `${first.name} has seeds ${ours.join(", ")}, but ${second.name} has ${theirs.join(", ")}. Train both with the ` +
        "same seeds.",
    );
  const omitted = [...new Set([...ours, ...theirs])].filter((seed) => !common.includes(seed)).sort((a, b) => a - b);
  if (omitted.length > 0)
    onWarning?.(`Skipped seeds ${omitted.join(", ")}: only one of ${first.name} and ${second.name} has them.`);
  const pickSeeds = (model: ModelOutcomes, seeds: readonly number[]): ModelOutcomes => ({
    name: model.name,
    outcomesPerSeed: common.map((seed) => model.outcomesPerSeed[seeds.indexOf(seed)]!),
    seeds: common,
  });
  return [pickSeeds(first, ours), pickSeeds(second, theirs)];
}

/** Returns the metrics that both models have on common examples. */
function selectMetrics(pair: Pair, onWarning: CompareOptions["onWarning"]): string[] {
  const [ours, theirs] = pair.map(({ outcomesPerSeed }) => [
    ...new Set(outcomesPerSeed.flatMap((seed) => [...seed.keys()])),
  ]);
  const all = pair.flatMap(({ outcomesPerSeed }) => outcomesPerSeed);
  const metrics = ours!.filter((metric) => all.every((outcomes) => outcomes.has(metric)));
  const [first, second] = pair.map(({ name }) => name);
  if (metrics.length === 0) {
    const list = (names: readonly string[]) => names.join(", ") || "none";
    throw new UserError(
      `${first} and ${second} have no metric in common (${list(ours!)}; ${list(theirs!)}). Run the same attacks on ` +
        "both.",
    );
  }
  const usable = metrics.filter((metric) => findCommonExamples(metric, pair).length > 0);
  if (usable.length === 0)
    throw new UserError(
      `${metrics[0]}: ${first} and ${second} have no examples in common. Use the same --task, --num-examples and ` +
        "--seed.",
    );
  const omitted = metrics.filter((metric) => !usable.includes(metric));
  if (omitted.length > 0)
    onWarning?.(`Skipped ${omitted.join(", ")}: ${first} and ${second} have no examples in common.`);
  return usable;
}

function findCommonExamples(metric: string, pair: Pair): string[] {
  const [one, ...others] = pair.flatMap(({ outcomesPerSeed }) => outcomesPerSeed.map((seed) => seed.get(metric)!));
  return [...one!.keys()].filter((id) => others.every((outcomes) => outcomes.has(id)));
}

function compareMetric(metric: string, pair: Pair, rng: Rng) {
  const ids = findCommonExamples(metric, pair);
  const [ours, theirs] = pair.map(({ outcomesPerSeed }) =>
    outcomesPerSeed.map((outcomes) => Uint8Array.from(ids, (id) => Number(outcomes.get(metric)!.get(id)))),
  ) as [Uint8Array[], Uint8Array[]];
  const { difference, low, high, p } = pairedBootstrap(ours, theirs, rng);
  const [scores, others] = [ours.map(mean), theirs.map(mean)];
  const countOnly = (a: Uint8Array, b: Uint8Array) => a.filter((value, i) => value > b[i]!).length;
  const isSingle = ours.length === 1;
  const [higher, lower] = difference >= 0 ? [scores, others] : [others, scores];
  return {
    metric,
    firstName: pair[0].name,
    secondName: pair[1].name,
    examples: ids.length,
    seeds: ours.length,
    first: mean(scores),
    second: mean(others),
    difference,
    low,
    high,
    p: {
      bootstrap: p,
      mcNemar: isSingle ? mcNemar(countOnly(ours[0]!, theirs[0]!), countOnly(theirs[0]!, ours[0]!)).exact : null,
      tTest: isSingle ? null : pairedTTest(higher, lower).p,
    },
  };
}

function formatVerdict(comparison: Omit<MetricComparison, "verdict">): string {
  const { metric, firstName, secondName, examples, seeds, difference, low, high, p, better } = comparison;
  const points = (value: number) => (100 * value).toFixed(1);
  const sample = `${examples} examples${seeds > 1 ? ` and ${seeds} seeds` : ""}`;
  const interval = `95% CI ${points(low)} to ${points(high)}`;
  const accuracies = `${formatPercent(comparison.first)} vs. ${formatPercent(comparison.second)} on ${sample}`;
  const numbers = `${accuracies}, ${points(difference)} points (${interval}; p ${formatPValue(p.corrected)})`;
  if (better !== null) {
    const [winner, loser] = better === "first" ? [firstName, secondName] : [secondName, firstName];
    return `${metric}: ${winner} is better than ${loser}: ${numbers}.`;
  }
  // The width of the CI gives the fraction of examples that only one model classifies correctly.
  // At least one example keeps the detectable difference above zero.
  const error = (high - low) / (2 * 1.96);
  const discordant = Math.max(1 / examples, Math.min(1, error * error * examples));
  const power = describePower(examples, { discordant });
  const subject = `the difference between ${firstName} and ${secondName}`;
  return `${metric}: ${subject} is not statistically significant: ${numbers}. ${power}`;
}

function formatPValue(p: number): string {
  return p < 0.001 ? "< 0.001" : `= ${p.toFixed(3)}`;
}
