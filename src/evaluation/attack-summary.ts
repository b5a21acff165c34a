import { z } from "zod";
import { type JournalHeader, readJournal } from "../attacks/journal.js";
import { resourceCostsSchema } from "../attacks/query-counters.js";
import { type AttackResult, readTarget } from "../attacks/result.js";
import { readTiming } from "../attacks/run-attack.js";
import { UserError } from "../base/errors.js";
import { attackCheckSchema, type CheckedAttack, type Controls, checkAttack } from "./attack-checks.js";
import { confusionMatrix, toPredictions } from "./metrics.js";
import type { ExampleOutcomes } from "./outcomes.js";
import { intervalSchema, mean, median, quantile, wilsonInterval } from "./statistics.js";
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

/** A line of a journal without its texts. */
interface SummaryLine
  extends Pick<
    AttackResult,
    "id" | "label" | "outcome" | "queries" | "exact" | "nearTie" | "ties" | "before" | "space" | "goal" | "isAttacked"
  > {
  /** Fractions of the words that the attack changed, and that it left. */
  readonly changed: number;
  readonly left: number;
}

export async function summarizeJournal(path: string): Promise<JournalSummary> {
  let header: JournalHeader | undefined;
  const lines: SummaryLine[] = [];
  for await (const entry of readJournal(path)) {
    ({ header } = entry);
    const { edits, words, finalWords, texts: _, finalTexts: __, ...line } = entry.result;
    const count = Math.max(1, words.length);
    lines.push({ ...line, changed: edits.length / count, left: finalWords.length / count });
  }
  if (!header) throw new UserError(`${path}: the journal has no results yet. Continue it with --resume.`);
  const results = lines.map(({ id, label, outcome }) => ({ id, label, outcome }));
  const target = lines.reduce<number | null>((found, { goal }) => readTarget(goal) ?? found, null);
  const maxQueries = lines.reduce((most, { queries }) => Math.max(most, queries), 0);
  return {
    path,
    header,
    finished: lines.length === header.examples,
    results,
    target,
    maxQueries,
    confusionMatrix: confusionMatrix(
      toPredictions(lines.map(({ before }) => before)),
      results.map(({ label }) => label),
      lines[0]!.before.length,
    ),
    space: summarizeSpace(lines),
    summary: summarizeLines(lines, header, target, maxQueries, await readTiming(path)),
  };
}

function summarizeLines(
  lines: readonly SummaryLine[],
  { settings: { budget, hasBudget: searchHasBudget } }: JournalHeader,
  target: number | null,
  maxQueries: number,
  timing: Awaited<ReturnType<typeof readTiming>>,
): AttackSummary {
  const [failed, successes] = (["failed", "success"] as const).map((wanted) =>
    lines.filter(({ outcome }) => outcome === wanted),
  ) as [SummaryLine[], SummaryLine[]];
  const queries = [...successes, ...failed].map((line) => line.queries);
  const attacked = queries.length - lines.filter(({ isAttacked }) => isAttacked === false).length;
  const hasBudget = searchHasBudget === true || (budget !== undefined && budget !== null);
  const limit = typeof budget === "number" ? budget : median(failed.map((line) => line.queries));
  const ties = sumOf(lines, (line) => line.ties ?? 0);
  const reduced = failed.filter(({ goal }) => goal === "input-reduction");
  const wanted = lines.filter(({ label }) => label !== target);
  return {
    accuracyUnderAttack: safeRatio(failed.length, lines.length),
    interval: wilsonInterval(failed.length, lines.length),
    ...(target !== null && {
      recall: computeRecall(wanted),
      curve: computeCurve(wanted, typeof budget === "number" ? budget : maxQueries),
    }),
    successRate: safeRatio(successes.length, attacked),
    attacked,
    wordsChanged: successes.length > 0 ? mean(successes.map(({ changed }) => changed)) : 0,
    queries: {
      mean: queries.length > 0 ? mean(queries) : 0,
      median: queries.length > 0 ? median(queries) : 0,
      p95: queries.length > 0 ? quantile(queries, 0.95) : 0,
      total: sumOf(lines, (line) => line.queries),
      evaluated: timing.evaluations,
    },
    tokens: { queried: timing.queryTokens, evaluated: timing.evaluatedTokens },
    ...(Object.keys(timing.resources).length > 0 && { resources: timing.resources }),
    seconds: timing.seconds,
    hasBudget,
    lateSuccesses: hasBudget ? successes.filter((line) => line.queries > 0.9 * limit).length : 0,
    ...(lines.some(({ exact }) => exact !== undefined) && {
      exact: lines.filter(({ outcome, exact }) => outcome !== "failed" || exact === true).length,
    }),
    ...(reduced.length > 0 && { wordsLeft: mean(reduced.map(({ left }) => left)) }),
    nearTies: lines.filter(({ nearTie }) => nearTie).map(({ id }) => id),
    ...(ties > 0 && { ties }),
  };
}

function summarizeSpace(lines: readonly SummaryLine[]): AttackSuiteSummary["space"] {
  const modifiable = sumOf(lines, ({ space }) => space.modifiableWords);
  const substitutes = safeRatio(
    sumOf(lines, ({ space }) => space.substitutes * space.modifiableWords),
    modifiable,
  );
  const modifiableWords = modifiable / lines.length;
  return {
    words: sumOf(lines, ({ space }) => space.words) / lines.length,
    modifiableWords,
    substitutes,
    log10Combinations: sumOf(lines, ({ space }) => space.log10Combinations) / lines.length,
    combinations: `${(substitutes + 1).toFixed(1)}^${Math.round(modifiableWords)}`,
  };
}

/** The recall over texts of the attacked classes. */
function computeRecall(lines: readonly SummaryLine[]): NonNullable<AttackSummary["recall"]> {
  const correct = lines.filter(({ outcome }) => outcome === "failed").length;
  const before = lines.filter(({ outcome }) => outcome !== "skipped").length;
  return {
    labels: [...new Set(lines.map(({ label }) => label))].sort((a, b) => a - b),
    examples: lines.length,
    before: safeRatio(before, lines.length),
    underAttack: safeRatio(correct, lines.length),
    interval: wilsonInterval(correct, lines.length),
  };
}

/** The budgets that a curve shows, with the complete one. */
export const curveBudgets = [1, 10, 100, 1000, 10_000] as const;

function computeCurve(lines: readonly SummaryLine[], budget: number): z.output<typeof curveSchema> {
  return [...curveBudgets.filter((queries) => queries < budget), budget].map((queries) => {
    const found = lines.filter(
      (line) => line.outcome === "failed" || (line.outcome === "success" && line.queries > queries),
    ).length;
    return { queries, recall: safeRatio(found, lines.length), interval: wilsonInterval(found, lines.length) };
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
  const worstCase = [...worst.values()].filter(Boolean).length;
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

export function hasSameExamples({ results: first }: JournalResults, { results: second }: JournalResults): boolean {
  return first.length === second.length && first.every(({ id }, i) => id === second[i]!.id);
}

function sumOf<T>(items: readonly T[], getValue: (item: T) => number): number {
  return items.reduce((sum, item) => sum + getValue(item), 0);
}

/** Returns part / whole, or 0 if there is nothing to count. */
function safeRatio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
