import { type JournalHeader, readJournal } from "../attacks/journal.js";
import type { AttackResult } from "../attacks/result.js";
import type { AttackTiming } from "../attacks/run-attack.js";
import { UserError } from "../errors.js";
import { type Interval, mean, median, quantile, wilsonInterval } from "./statistics.js";

/** What one attack did to a model. Shares lie between 0 and 1. */
export interface AttackSummary {
  /** Still right after the attack, of all examples: those wrong from the start count as errors. */
  readonly accuracyUnderAttack: number;
  readonly interval: Interval;
  /** Fooled, of those that were right before (`attacked`). */
  readonly successRate: number;
  readonly attacked: number;
  /** Mean share of words changed, over the successes. */
  readonly wordsChanged: number;
  /** Queries of the attacked examples; `total` is over all, `forwarded` what the victim really scored. */
  readonly queries: {
    readonly mean: number;
    readonly median: number;
    readonly p95: number;
    readonly total: number;
    readonly forwarded: number;
  };
  readonly tokens: { readonly asked: number; readonly forwarded: number };
  readonly seconds: number;
  /** True where the attack stops at a budget. */
  readonly limited: boolean;
  /** Successes in the last tenth of the budget: many of them say that a larger one would find more. */
  readonly lateSuccesses: number;
  /** Examples whose verdict is proven; only from searches that can tell. With fewer than all, accuracy is an upper bound. */
  readonly exact?: number;
  /** Ids of the examples where a lead under 1e-4 decided. */
  readonly nearTies: readonly string[];
  /** Examples attacked without the language model that was asked for: they have no precomputed swaps. */
  readonly withoutLanguageModel: number;
}

/** The attack space as RIFT 3.3 states it: choices a word ^ open words. */
export interface AttackSpaceSummary {
  /** Words of an example, and how many of them have substitutes: means over the examples. */
  readonly words: number;
  readonly openWords: number;
  /** Mean substitutes of an open word. */
  readonly substitutes: number;
  readonly log10Combinations: number;
  /** "6.5^4". */
  readonly combinations: string;
}

/** A finished journal's examples and what the whole of it says. */
export interface JournalSummary {
  readonly header: JournalHeader;
  readonly results: readonly Pick<AttackResult, "id" | "label" | "outcome">[];
  readonly summary: AttackSummary;
  readonly space: AttackSpaceSummary;
}

/** Reads a journal once, in order, and keeps no text. */
export async function summarizeJournal(path: string, timing: AttackTiming | undefined): Promise<JournalSummary> {
  let header: JournalHeader | undefined;
  const results: Pick<AttackResult, "id" | "label" | "outcome">[] = [];
  const queries: Record<AttackResult["outcome"], number[]> = { skipped: [], success: [], failed: [] };
  const changed: number[] = [];
  const nearTies: string[] = [];
  const sums = { words: 0, open: 0, substitutes: 0, log10: 0, exact: 0, withoutLanguageModel: 0 };
  let knowsExact = false;
  for await (const entry of readJournal(path)) {
    const { result } = entry;
    header = entry.header;
    results.push({ id: result.id, label: result.label, outcome: result.outcome });
    queries[result.outcome].push(result.queries);
    if (result.outcome === "success") changed.push(result.edits.length / result.words.length);
    if (result.nearTie) nearTies.push(result.id);
    sums.words += result.space.words;
    sums.open += result.space.openWords;
    sums.substitutes += result.space.substitutes * result.space.openWords;
    sums.log10 += result.space.log10Combinations;
    sums.withoutLanguageModel += Number(result.withoutLanguageModel);
    knowsExact ||= result.exact !== undefined;
    sums.exact += Number(result.outcome !== "failed" || result.exact === true);
  }
  if (!header) throw new UserError(`${path}: the journal has no results yet; continue it with --resume`);
  const count = results.length;
  const attacked = [...queries.success, ...queries.failed];
  const total = [...attacked, ...queries.skipped].reduce((sum, value) => sum + value, 0);
  const held = queries.failed.length;
  const limited = header.settings.limited === true || typeof header.settings.budget === "number";
  const limit = typeof header.settings.budget === "number" ? header.settings.budget : median(queries.failed);
  const substitutes = safeRatio(sums.substitutes, sums.open);
  return {
    header,
    results,
    space: {
      words: safeRatio(sums.words, count),
      openWords: safeRatio(sums.open, count),
      substitutes,
      log10Combinations: safeRatio(sums.log10, count),
      combinations: `${(substitutes + 1).toFixed(1)}^${Math.round(safeRatio(sums.open, count))}`,
    },
    summary: {
      accuracyUnderAttack: safeRatio(held, count),
      interval: wilsonInterval(held, count),
      successRate: safeRatio(queries.success.length, attacked.length),
      attacked: attacked.length,
      wordsChanged: changed.length > 0 ? mean(changed) : 0,
      queries: {
        mean: attacked.length > 0 ? mean(attacked) : 0,
        median: attacked.length > 0 ? median(attacked) : 0,
        p95: attacked.length > 0 ? quantile(attacked, 0.95) : 0,
        total,
        forwarded: timing?.forwarded ?? 0,
      },
      tokens: { asked: timing?.askedTokens ?? 0, forwarded: timing?.forwardedTokens ?? 0 },
      seconds: timing?.seconds ?? 0,
      limited,
      lateSuccesses: limited ? queries.success.filter((value) => value > 0.9 * limit).length : 0,
      ...(knowsExact && { exact: sums.exact }),
      nearTies,
      withoutLanguageModel: sums.withoutLanguageModel,
    },
  };
}

/** A share, 0 of nothing. */
export function safeRatio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
