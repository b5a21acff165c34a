import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { formatPercent, formatPoints, formatPValue } from "../base/format.js";
import { groupBy } from "../base/group-by.js";
import { Rng } from "../base/rng.js";
import { describeMetric } from "./metric-table.js";
import type { ModelOutcomes } from "./outcomes.js";
import {
  type BootstrapResult,
  bootstrapPairs,
  describePower,
  holmCorrection,
  mcNemar,
  mean,
  pairedTTest,
} from "./statistics.js";
import { unifyWorstCase } from "./worst-case.js";

/** Two models on one metric. */
export const metricComparisonSchema = z.object({
  metric: z.string(),
  /** The label whose texts were attacked, so that the numbers are its recall; null: every label. */
  attackedLabel: z.string().nullable(),
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
  /** Null if the difference is not significant, or if one of the models is degenerate. */
  better: z.enum(["first", "second"]).nullable(),
  /** The reason why nothing may be concluded: one of the models is degenerate. Null if both are sound. */
  warning: z.string().nullable(),
  /** The result in one sentence. */
  verdict: z.string(),
});
export type MetricComparison = z.output<typeof metricComparisonSchema>;

export interface CompareOptions {
  /** Seed of the bootstrap. */
  readonly seed?: number;
  /** Called for models, seeds and metrics that cannot be compared. */
  readonly onEvent?: Callbacks["onEvent"];
  /**
   * True if models that cannot be compared with the first are left out. Default: they are
   * errors.
   */
  readonly skipIncomparable?: boolean;
}

/** A difference with a smaller p-value is significant. */
export const significanceLevel = 0.05;

/** Random streams of renamed metrics. The name of a stream is part of the results. */
const streamNames: Readonly<Record<string, string>> = { accuracy: "clean", "worst-case": "worst case" };

/**
 * Compares each of the other models with the first one, on every metric and all examples that both
 * have. P-values are corrected for all tests of the call (Holm). `compare`, tables and reports show
 * its results; a table corrects the p-values of all its columns together.
 */
export function compareModels(given: readonly ModelOutcomes[], options: CompareOptions = {}): MetricComparison[] {
  const [first, ...others] = unifyWorstCase(given, options);
  if (!first || others.length === 0)
    throw new UserError(`compare: expected two or more models, received ${given.length}`);
  const rng = new Rng(options.seed ?? 0);
  const found = others.flatMap((other) => {
    try {
      const pair = alignSeeds(first, other, options);
      return selectMetrics(pair, options).map((metric) => listScores(metric, pair));
    } catch (error) {
      if (!options.skipIncomparable || !(error instanceof UserError)) throw error;
      warn(options, error.message);
      return [];
    }
  });
  const bootstraps = new Map<MetricScores, BootstrapResult>();
  // Tests of one metric and size have the same random stream, so they share its resamples.
  const getStream = ({ metric, ids, scores }: MetricScores): string => `${scores[0].length} ${ids.length} ${metric}`;
  for (const group of groupBy(found, getStream).values()) {
    const { metric } = group[0]!;
    const stream = rng.fork("compare", streamNames[metric] ?? metric);
    const results = bootstrapPairs(
      group.map(({ scores }) => scores),
      stream,
    );
    for (const [i, each] of group.entries()) bootstraps.set(each, results[i]!);
  }
  const comparisons = found.map((each) => compareMetric(each, bootstraps.get(each)!));
  const corrected = holmCorrection(comparisons.map(({ p }) => p.mcNemar ?? p.bootstrap));
  return comparisons.map((comparison, i) => {
    const p = { ...comparison.p, corrected: corrected[i]! };
    const isSignificant = p.corrected < significanceLevel && comparison.warning === null;
    const better = !isSignificant ? null : comparison.difference > 0 ? "first" : "second";
    return { ...comparison, p, better, verdict: formatVerdict({ ...comparison, p, better }) };
  });
}

type Pair = readonly [ModelOutcomes, ModelOutcomes];

/** Keeps the seeds that both models have. Two single runs are compared whatever their seeds are. */
function alignSeeds(first: ModelOutcomes, second: ModelOutcomes, callbacks: Pick<Callbacks, "onEvent">): Pair {
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
    warn(callbacks, `Skipped seeds ${omitted.join(", ")}: only one of ${first.name} and ${second.name} has them.`);
  const pickSeeds = (model: ModelOutcomes, seeds: readonly number[]): ModelOutcomes => ({
    ...model,
    outcomesPerSeed: common.map((seed) => model.outcomesPerSeed[seeds.indexOf(seed)]!),
    degeneracies: common.map((seed) => model.degeneracies?.[seeds.indexOf(seed)] ?? null),
    seeds: common,
  });
  return [pickSeeds(first, ours), pickSeeds(second, theirs)];
}

/** Returns the metrics that both models have on common examples. */
function selectMetrics(pair: Pair, callbacks: Pick<Callbacks, "onEvent">): string[] {
  const [ours, theirs] = pair.map(({ outcomesPerSeed }) => [
    ...new Set(outcomesPerSeed.flatMap((seed) => [...seed.keys()])),
  ]);
  const all = pair.flatMap(({ outcomesPerSeed }) => outcomesPerSeed);
  const common = ours!.filter((metric) => all.every((outcomes) => outcomes.has(metric)));
  // The test split is larger than the attacked sample: one of them is enough. The recall of a label
  // is another number.
  const isOther = findPairLabel(pair) !== null || !common.includes("accuracy");
  const metrics = common.filter((metric) => metric !== "clean" || isOther);
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
      `${metrics[0]}: ${first} and ${second} have no examples in common. Use runs on the same data, with the same ` +
        "--task, --num-examples and --seed.",
    );
  const omitted = metrics.filter((metric) => !usable.includes(metric));
  if (omitted.length > 0)
    warn(callbacks, `Skipped ${omitted.join(", ")}: ${first} and ${second} have no examples in common.`);
  return usable;
}

/** The label of the attacked texts that both models have; null if they are of every label. */
function findPairLabel([first, second]: Pair): string | null {
  return first.attackedLabel ?? second.attackedLabel ?? null;
}

function findCommonExamples(metric: string, pair: Pair): string[] {
  const [one, ...others] = pair.flatMap(({ outcomesPerSeed }) => outcomesPerSeed.map((seed) => seed.get(metric)!));
  return [...one!.keys()].filter((id) => others.every((outcomes) => outcomes.has(id)));
}

type MetricScores = ReturnType<typeof listScores>;

/** The outcomes of both models on the examples that they have in common: a row per seed. */
function listScores(metric: string, pair: Pair) {
  const ids = findCommonExamples(metric, pair);
  const scores = pair.map(({ outcomesPerSeed }) =>
    outcomesPerSeed.map((outcomes) => Uint8Array.from(ids, (id) => Number(outcomes.get(metric)!.get(id)))),
  ) as [Uint8Array[], Uint8Array[]];
  return { metric, pair, ids, scores };
}

function compareMetric({ metric, pair, ids, scores: [ours, theirs] }: MetricScores, bootstrap: BootstrapResult) {
  const { difference, low, high, p } = bootstrap;
  const [scores, others] = [ours.map(mean), theirs.map(mean)];
  const countOnly = (a: Uint8Array, b: Uint8Array) => a.filter((value, i) => value > b[i]!).length;
  const isSingle = ours.length === 1;
  const [higher, lower] = difference >= 0 ? [scores, others] : [others, scores];
  return {
    metric,
    attackedLabel: findPairLabel(pair),
    firstName: pair[0].name,
    secondName: pair[1].name,
    examples: ids.length,
    seeds: ours.length,
    first: mean(scores),
    second: mean(others),
    difference,
    low,
    high,
    warning: describeDegeneratePair(pair),
    p: {
      bootstrap: p,
      mcNemar: isSingle ? mcNemar(countOnly(ours[0]!, theirs[0]!), countOnly(theirs[0]!, ours[0]!)).exact : null,
      tTest: isSingle ? null : pairedTTest(higher, lower).p,
    },
  };
}

/** Names the degenerate models of a pair; null if there are none. */
function describeDegeneratePair(pair: Pair): string | null {
  const reasons = pair.flatMap(({ name, degeneracies = [], seeds }) => {
    const i = degeneracies.findIndex((reason) => reason !== null);
    if (i < 0) return [];
    const seed = degeneracies.length > 1 && seeds ? ` (seed ${seeds[i]})` : "";
    return [`${name}${seed} is degenerate: ${degeneracies[i]}`];
  });
  return reasons.length > 0 ? `${reasons.join("; ")}. Draw no conclusion from the difference.` : null;
}

function formatVerdict(comparison: Omit<MetricComparison, "verdict">): string {
  const { metric, firstName, secondName, examples, seeds, p, better, warning } = comparison;
  const isSwapped = better === "second";
  const [winner, loser] = isSwapped ? [secondName, firstName] : [firstName, secondName];
  const values = [comparison.first, comparison.second];
  const [higher, lower] = (isSwapped ? values.reverse() : values).map((value) => formatPercent(value));
  const { low, high } = comparison;
  const points = (value: number) => formatPoints(isSwapped ? -value : value);
  const sample = `${examples} examples${seeds > 1 ? ` and ${seeds} seeds` : ""}`;
  const interval = `95% CI ${isSwapped ? `${points(high)} to ${points(low)}` : `${points(low)} to ${points(high)}`}`;
  const test = `${interval}; Holm-corrected p ${formatPValue(p.corrected)}`;
  const numbers = `${higher} vs. ${lower} on ${sample}, ${points(comparison.difference)} points (${test})`;
  const { title } = describeMetric(metric, comparison.attackedLabel);
  if (better !== null) return `${title}: ${winner} is better than ${loser}: ${numbers}.`;
  const subject = `the difference between ${firstName} and ${secondName}`;
  if (warning !== null) return `${title}: ${firstName} and ${secondName}: ${numbers}. ${warning}`;
  // The width of the CI gives the fraction of examples that only one model classifies correctly.
  const error = (high - low) / (2 * 1.96);
  const power = describePower(examples, { discordant: Math.min(1, error * error * examples) });
  return `${title}: ${subject} is not statistically significant: ${numbers}. ${power}`;
}
