import type { AttackTiming } from "../attacks/run-attack.js";
import { UserError } from "../errors.js";
import {
  type AttackSpaceSummary,
  type AttackSummary,
  type JournalSummary,
  safeRatio,
  summarizeJournal,
} from "./journal-summary.js";
import { type Interval, wilsonInterval } from "./statistics.js";

/** Several attacks on one model, over the same examples. */
export interface AttackSuiteSummary {
  readonly examples: number;
  /** Accuracy before any attack. */
  readonly clean: number;
  readonly cleanInterval: Interval;
  /** Share of the most frequent gold label. */
  readonly majority: number;
  readonly attacks: Readonly<Record<string, AttackSummary>>;
  /** Accuracy over all attacks: an example survives only if every one of them fails. */
  readonly worstCase: number;
  readonly worstCaseInterval: Interval;
  readonly space: AttackSpaceSummary;
}

/** Summarises journals (attack name -> path) of the same examples. */
export async function summarize(
  journals: Readonly<Record<string, string>>,
  timings: Readonly<Record<string, AttackTiming>> = {},
): Promise<AttackSuiteSummary> {
  const names = Object.keys(journals);
  const reads: JournalSummary[] = [];
  for (const name of names) reads.push(await summarizeJournal(journals[name]!, timings[name]));
  const [first] = reads;
  if (!first) throw new UserError("summary: expected at least one journal");
  const { results } = first;
  for (const [i, read] of reads.entries()) {
    if (read.results.length === results.length && read.results.every((result, k) => result.id === results[k]!.id))
      continue;
    throw new UserError(
      `${journals[names[i]!]}: its examples are not those of ${journals[names[0]!]}; run the attacks on the same examples`,
    );
  }
  const count = results.length;
  const clean = results.filter((result) => result.outcome !== "skipped").length;
  const held = results.filter((_, k) => reads.every((read) => read.results[k]!.outcome === "failed")).length;
  const labelCounts = new Map<number, number>();
  for (const { label } of results) labelCounts.set(label, (labelCounts.get(label) ?? 0) + 1);
  return {
    examples: count,
    clean: safeRatio(clean, count),
    cleanInterval: wilsonInterval(clean, count),
    majority: safeRatio(Math.max(0, ...labelCounts.values()), count),
    attacks: Object.fromEntries(names.map((name, i) => [name, reads[i]!.summary])),
    worstCase: safeRatio(held, count),
    worstCaseInterval: wilsonInterval(held, count),
    // The widest: a language model narrows the space of those that keep to it.
    space: reads
      .map(({ space }) => space)
      .reduce((widest, space) => (space.log10Combinations > widest.log10Combinations ? space : widest)),
  };
}
