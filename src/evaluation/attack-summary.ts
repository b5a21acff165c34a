import { z } from "zod";
import { type JournalHeader, readJournal } from "../attacks/journal.js";
import { resourceCostsSchema } from "../attacks/query-counters.js";
import { type AttackResult, readTarget } from "../attacks/result.js";
import { readTiming } from "../attacks/run-attack.js";
import { UserError } from "../base/errors.js";
import { attackCheckSchema, type CheckedAttack, type Controls, checkAttack } from "./attack-checks.js";
import { attackValiditySchema } from "./attack-validity.js";
import { confusionMatrix, toPredictions } from "./metrics.js";
import type { ExampleOutcomes } from "./outcomes.js";
import { clopperPearsonInterval, intervalSchema, mean, median, quantile, wilsonInterval } from "./statistics.js";
import { combineAttacks, selectLargestSample, worstCaseId } from "./worst-case.js";

const number = z.number();

const curveSchema = z.array(z.object({ queries: number, recall: number, interval: intervalSchema }));

/** The result of one attack on one model. Rates are between 0 and 1. */
const attackSummarySchema = z.object({
  /**
   * Fraction of all examples that stay correct. Examples misclassified before the attack count as
   * errors.
   */
  accuracyUnderAttack: number,
  interval: intervalSchema,
  /**
   * If the attack wants one class: the recall of the other classes, whose texts it attacks. This is
   * its main number, because texts of the wanted class are not attacked.
   */
  recall: z
    .object({
      /** The attacked classes. */
      labels: z.array(number),
      /** Texts of these classes. Those that were misclassified before the attack count as errors. */
      examples: number,
      before: number,
      underAttack: number,
      interval: intervalSchema,
    })
    .optional(),
  /**
   * If the attack wants one class: the recall of the other classes after so many queries per text.
   * More queries never raise it, because a text that was fooled stays fooled.
   */
  curve: curveSchema.optional(),
  /** Fraction of the attacked examples that were fooled. */
  successRate: number,
  /**
   * Number of examples that were attacked: those of an attacked class that were classified
   * correctly before the attack.
   */
  attacked: number,
  /** Mean fraction of changed words, over the successes. */
  wordsChanged: number,
  /**
   * Queries per attacked example; `total` is over all examples, `evaluated` excludes cached texts.
   */
  queries: z.object({ mean: number, median: number, p95: number, total: number, evaluated: number }),
  tokens: z.object({ queried: number, evaluated: number }),
  /** The cost of the sentence encoder, the masked language model, the tagger and gradients. */
  resources: resourceCostsSchema.optional(),
  seconds: number,
  /** True if the attack or the user limited the number of queries. */
  hasBudget: z.boolean(),
  /**
   * Successes in the last 10% of the budget. If there are many, a larger budget would find more.
   */
  lateSuccesses: number,
  /**
   * Examples whose outcome is proven. If it is less than all, accuracy under attack is an upper
   * bound.
   */
  exact: number.optional(),
  /** Mean fraction of words that input reduction left, with the same prediction. */
  wordsLeft: number.optional(),
  /** The same over valid texts only, if their similarity was measured. */
  validity: attackValiditySchema.optional(),
  /**
   * The fraction of random texts that fool the model, over the attacked examples, with its
   * Clopper-Pearson interval; and the examples none of whose random texts did.
   */
  density: z
    .object({ samples: number, flipped: number, fraction: number, interval: intervalSchema, unflipped: number })
    .optional(),
  /** IDs of the examples for which a margin below 1e-4 decided a prediction. */
  nearTies: z.array(z.string()),
  /** The checks that say if the attack is strong enough for its number to be evidence (`isAdequate`). */
  checks: z.array(attackCheckSchema).optional(),
  /** Candidates that a search could not tell apart from others, because their margins are equal. */
  ties: number.optional(),
});
export type AttackSummary = z.output<typeof attackSummarySchema>;

/** The attack space as RIFT 3.3 states it: replacements per word ^ modifiable words. */
const attackSpaceSchema = z.object({
  /** Mean number of words per example. */
  words: number,
  /** Mean number of words that have substitutes. */
  modifiableWords: number,
  /** Mean number of substitutes per modifiable word. */
  substitutes: number,
  log10Combinations: number,
  /** For example "6.5^4". */
  combinations: z.string(),
});

/** The result of several attacks on one model, over the same examples. */
export const attackSuiteSummarySchema = z.object({
  examples: number,
  /** Accuracy before any attack. */
  clean: number,
  cleanInterval: intervalSchema,
  /** Fraction of the most frequent gold label. */
  majority: number,
  /** Before any attack. Rows are gold labels, columns predictions. */
  confusionMatrix: z.array(z.array(number)).default([]),
  attacks: z.record(z.string(), attackSummarySchema),
  /** Fraction of the examples that stay correct under every attack. */
  worstCase: number,
  worstCaseInterval: intervalSchema,
  /** The number of examples of the worst case; that of all if it is missing. */
  worstCaseExamples: number.optional(),
  /** The curve of the attack `guard`, if it ran. */
  curve: curveSchema.optional(),
  space: attackSpaceSchema,
});
export type AttackSuiteSummary = z.output<typeof attackSuiteSummarySchema>;

type ExampleResult = Pick<AttackResult, "id" | "label" | "outcome">;

/** A journal without its texts. */
export interface JournalSummary {
  readonly path: string;
  readonly header: JournalHeader;
  /** True if every example has a result. */
  readonly finished: boolean;
  readonly results: readonly ExampleResult[];
  /** Before the attack. Rows are gold labels, columns predictions. */
  readonly confusionMatrix: readonly (readonly number[])[];
  /** The class that the attack wants; null if any wrong class will do. */
  readonly target: number | null;
  /** The queries of the longest search. */
  readonly maxQueries: number;
  readonly summary: AttackSummary;
  readonly space: AttackSuiteSummary["space"];
}

type JournalResults = Pick<JournalSummary, "results"> & Partial<Pick<JournalSummary, "target">>;

/** Reads a journal once and counts what its summary needs. */
async function readCounts(path: string) {
  let header: JournalHeader | undefined;
  const results: ExampleResult[] = [];
  /** The queries of each result. */
  const queryCounts: number[] = [];
  const queries: Record<AttackResult["outcome"], number[]> = { skipped: [], success: [], failed: [] };
  const changed: number[] = [];
  const nearTies: string[] = [];
  const probabilities: (readonly number[])[] = [];
  const sums = { words: 0, modifiable: 0, substitutes: 0, log10: 0, exact: 0, ties: 0 };
  const density = { samples: 0, flipped: 0, unflipped: 0 };
  /** Fractions of words that input reduction left. */
  const remaining: number[] = [];
  /** Examples that the goal does not concern. */
  let untargetedCount = 0;
  let knowsExact = false;
  let target: number | null = null;
  for await (const entry of readJournal(path)) {
    const { id, label, outcome, space, ...result } = entry.result;
    header = entry.header;
    target = readTarget(result.goal) ?? target;
    results.push({ id, label, outcome });
    queryCounts.push(result.queries);
    probabilities.push(result.before);
    queries[outcome].push(result.queries);
    if (result.isAttacked === false) untargetedCount++;
    if (outcome === "success") changed.push(result.edits.length / Math.max(1, result.words.length));
    if (result.goal === "input-reduction" && outcome === "failed")
      remaining.push(result.finalWords.length / Math.max(1, result.words.length));
    if (result.density) {
      density.samples += result.density.samples;
      density.flipped += result.density.flipped;
      density.unflipped += Number(result.density.flipped === 0);
    }
    if (result.nearTie) nearTies.push(id);
    sums.ties += result.ties ?? 0;
    sums.words += space.words;
    sums.modifiable += space.modifiableWords;
    sums.substitutes += space.substitutes * space.modifiableWords;
    sums.log10 += space.log10Combinations;
    knowsExact ||= result.exact !== undefined;
    sums.exact += Number(outcome !== "failed" || result.exact === true);
  }
  if (!header) throw new UserError(`${path}: the journal has no results yet. Continue it with --resume.`);
  return {
    header,
    results,
    queryCounts,
    queries,
    changed,
    nearTies,
    probabilities,
    sums,
    density,
    remaining,
    untargetedCount,
    knowsExact,
    target,
  };
}

/** Reads a journal and summarizes it. */
export async function summarizeJournal(path: string): Promise<JournalSummary> {
  const counts = await readCounts(path);
  const { header, results, queryCounts, queries, probabilities, sums, changed, nearTies, target } = counts;
  const timing = await readTiming(path);
  const count = results.length;
  const attacked = [...queries.success, ...queries.failed];
  const targeted = attacked.length - counts.untargetedCount;
  const total = [...attacked, ...queries.skipped].reduce((sum, value) => sum + value, 0);
  const { budget, hasBudget: searchHasBudget } = header.settings;
  const hasBudget = searchHasBudget === true || (budget !== undefined && budget !== null);
  const limit = typeof budget === "number" ? budget : median(queries.failed);
  const maxQueries = queryCounts.reduce((a, b) => Math.max(a, b), 0);
  const substitutes = safeRatio(sums.substitutes, sums.modifiable);
  const modifiableWords = safeRatio(sums.modifiable, count);
  return {
    path,
    header,
    finished: count === header.examples,
    results,
    target,
    maxQueries,
    confusionMatrix: confusionMatrix(
      toPredictions(probabilities),
      results.map(({ label }) => label),
      probabilities[0]?.length ?? 0,
    ),
    space: {
      words: safeRatio(sums.words, count),
      modifiableWords,
      substitutes,
      log10Combinations: safeRatio(sums.log10, count),
      combinations: `${(substitutes + 1).toFixed(1)}^${Math.round(modifiableWords)}`,
    },
    summary: {
      accuracyUnderAttack: safeRatio(queries.failed.length, count),
      interval: wilsonInterval(queries.failed.length, count),
      ...(target !== null && {
        recall: computeRecall(results, target),
        curve: computeCurve(results, queryCounts, target, typeof budget === "number" ? budget : maxQueries),
      }),
      successRate: safeRatio(queries.success.length, targeted),
      attacked: targeted,
      wordsChanged: changed.length > 0 ? mean(changed) : 0,
      queries: {
        mean: attacked.length > 0 ? mean(attacked) : 0,
        median: attacked.length > 0 ? median(attacked) : 0,
        p95: attacked.length > 0 ? quantile(attacked, 0.95) : 0,
        total,
        evaluated: timing.evaluations,
      },
      tokens: { queried: timing.queryTokens, evaluated: timing.evaluatedTokens },
      ...(Object.keys(timing.resources).length > 0 && { resources: timing.resources }),
      seconds: timing.seconds,
      hasBudget,
      lateSuccesses: hasBudget ? queries.success.filter((value) => value > 0.9 * limit).length : 0,
      ...summarizeParts(counts),
      nearTies,
      ...(sums.ties > 0 && { ties: sums.ties }),
    },
  };
}

/** The parts of a summary that only some goals and models have. */
function summarizeParts({ knowsExact, sums, remaining, density }: Awaited<ReturnType<typeof readCounts>>) {
  return {
    ...(knowsExact && { exact: sums.exact }),
    ...(remaining.length > 0 && { wordsLeft: mean(remaining) }),
    ...(density.samples > 0 && {
      density: {
        ...density,
        fraction: density.flipped / density.samples,
        interval: clopperPearsonInterval(density.flipped, density.samples),
      },
    }),
  };
}

function computeRecall(results: readonly ExampleResult[], target: number): NonNullable<AttackSummary["recall"]> {
  const attacked = results.filter(({ label }) => label !== target);
  const correct = attacked.filter(({ outcome }) => outcome === "failed").length;
  const before = attacked.filter(({ outcome }) => outcome !== "skipped").length;
  return {
    labels: [...new Set(attacked.map(({ label }) => label))].sort((a, b) => a - b),
    examples: attacked.length,
    before: safeRatio(before, attacked.length),
    underAttack: safeRatio(correct, attacked.length),
    interval: wilsonInterval(correct, attacked.length),
  };
}

/** The budgets that a curve shows, with the complete one. */
export const curveBudgets = [1, 10, 100, 1000, 10_000] as const;

function computeCurve(
  results: readonly ExampleResult[],
  queryCounts: readonly number[],
  target: number,
  budget: number,
): z.output<typeof curveSchema> {
  const attacked = results.flatMap(({ label, outcome }, i) =>
    label === target ? [] : [{ outcome, queries: queryCounts[i]! }],
  );
  return [...curveBudgets.filter((queries) => queries < budget), budget].map((queries) => {
    const found = attacked.filter(
      (each) => each.outcome === "failed" || (each.outcome === "success" && each.queries > queries),
    ).length;
    return {
      queries,
      recall: safeRatio(found, attacked.length),
      interval: wilsonInterval(found, attacked.length),
    };
  });
}

/** Attacks by name with what their checks read. */
function listChecked(journals: ReadonlyMap<string, JournalSummary>): Map<string, CheckedAttack> {
  return new Map(
    [...journals].map(([name, { results, header }]) => [
      name,
      { results, isWhiteBox: header.settings.isWhiteBox === true, isTransfer: name.startsWith("transfer-") },
    ]),
  );
}

/** Summarizes several attacks (by name) on the same examples. `controls` are the attacks that check them. */
export function summarizeAttacks(
  journals: ReadonlyMap<string, JournalSummary>,
  controls: ReadonlyMap<string, Controls> = new Map(),
): AttackSuiteSummary {
  const [first, ...others] = journals.values();
  if (!first) throw new UserError("expected at least one attack to summarize");
  const different = others.find((other) => !hasSameExamples(first, other));
  if (different)
    throw new UserError(
      `${different.path} and ${first.path} have different examples. Run all attacks on the same examples.`,
    );
  const outcomes = computeOutcomes(journals);
  const examples = first.results.length;
  const clean = first.results.filter(({ outcome }) => outcome !== "skipped").length;
  const [strongest] = selectLargestSample(outcomes);
  // One attack is its own worst case.
  const worst = outcomes.get(worstCaseId) ?? outcomes.get(strongest!)!;
  const worstCase = countCorrect(worst);
  const guard = journals.get("guard")?.summary;
  const checked = listChecked(journals);
  const labelCounts = new Map<number, number>();
  for (const { label } of first.results) labelCounts.set(label, (labelCounts.get(label) ?? 0) + 1);
  return {
    examples,
    clean: safeRatio(clean, examples),
    cleanInterval: wilsonInterval(clean, examples),
    majority: safeRatio(Math.max(0, ...labelCounts.values()), examples),
    confusionMatrix: first.confusionMatrix.map((row) => [...row]),
    attacks: Object.fromEntries(
      [...journals].map(([name, { summary }]) => {
        const checks = checkAttack(name, checked, controls.get(name));
        return [name, checks.length > 0 ? { ...summary, checks } : summary];
      }),
    ),
    worstCase: safeRatio(worstCase, worst.size),
    worstCaseInterval: wilsonInterval(worstCase, worst.size),
    worstCaseExamples: worst.size,
    ...(guard?.curve && { curve: guard.curve }),
    // Use the largest space. A language model makes it smaller for some attacks.
    space: [first, ...others]
      .map(({ space }) => space)
      .reduce((largest, space) => (space.log10Combinations > largest.log10Combinations ? space : largest)),
  };
}

/**
 * Returns whether each example is classified correctly, by metric ID: "clean" before any attack,
 * each attack's name, and "worst-case" under all attacks if there are several. An attack that wants
 * one class has the examples of the other classes. The numbers before the attack and of the worst
 * case are over the texts of the largest sample, and only attacks on all of them are combined, so
 * that no two numbers of different texts look like a pair.
 */
export function computeOutcomes(journals: ReadonlyMap<string, JournalResults>): Map<string, ExampleOutcomes> {
  const attacks = new Map(
    [...journals].map(([name, { results, target = null }]): [string, ExampleOutcomes] => [
      name,
      new Map(
        results.filter(({ label }) => label !== target).map(({ id, outcome }) => [id, outcome === "failed"] as const),
      ),
    ]),
  );
  const [first, ...others] = selectLargestSample(attacks);
  if (first === undefined) return new Map();
  const { results } = journals.get(first)!;
  const ids = attacks.get(first)!;
  const clean = new Map(results.filter(({ id }) => ids.has(id)).map(({ id, outcome }) => [id, outcome !== "skipped"]));
  const outcomes = new Map<string, ExampleOutcomes>([["clean", clean], ...attacks]);
  if (others.length > 0)
    outcomes.set(worstCaseId, combineAttacks([first, ...others].map((name) => attacks.get(name)!)));
  return outcomes;
}

/** The only label whose texts all journals attack; null if there is no such label. */
export function findAttackedLabel(journals: Iterable<Pick<JournalSummary, "header">>): string | null {
  const labels = new Set([...journals].map(({ header }) => header.settings.attackedLabel));
  const [label] = labels;
  return labels.size === 1 && typeof label === "string" ? label : null;
}

/** Returns whether two journals have the same examples in the same order. */
export function hasSameExamples({ results: first }: JournalResults, { results: second }: JournalResults): boolean {
  return first.length === second.length && first.every(({ id }, i) => id === second[i]!.id);
}

function countCorrect(outcomes: ExampleOutcomes): number {
  return [...outcomes.values()].filter(Boolean).length;
}

/** Returns part / whole, or 0 if there is nothing to count. */
function safeRatio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
