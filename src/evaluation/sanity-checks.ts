import { z } from "zod";
import { formatPercent } from "../base/format.js";
import { notAdequate } from "./attack-checks.js";
import type { AttackSuiteSummary } from "./attack-summary.js";
import { describeDegeneracy, formatDegeneracy } from "./degenerate.js";

/** Facts that a summary does not contain. */
export interface SanityFacts {
  /** The names of the labels. */
  readonly labels?: readonly string[];
  /** True if the victim returned different answers for the same text. */
  readonly dropoutOn?: boolean;
  /** The tokenization with which the model was trained. */
  readonly trainedTokenization?: string;
  /** The tokenization of the attack. */
  readonly tokenization?: string;
}

export const sanityWarningSchema = z.object({ name: z.string(), message: z.string() });
export type SanityWarning = z.output<typeof sanityWarningSchema>;

/** Differences below this many standard errors are sampling noise. */
const significantStandardErrors = 2;

/** Checks a summary for signs that its numbers are misleading. */
export function runSanityChecks(summary: AttackSuiteSummary, facts: SanityFacts = {}): SanityWarning[] {
  const { clean, majority, attacks, space } = summary;
  const { trainedTokenization, tokenization } = facts;
  const warnings: SanityWarning[] = [];
  const warn = (name: string, message: string) => warnings.push({ name, message });

  const degeneracy = describeDegeneracy(summary.confusionMatrix, facts.labels);
  if (degeneracy) warn("degenerate", formatDegeneracy(degeneracy, "accuracy under attack"));
  // If one label alone was attacked, it is always the most common one.
  if (majority < 1 && isClearlyLower(clean, majority, summary.examples))
    warn(
      "label-map",
      `Clean accuracy (${formatPercent(clean)}) is below the frequency of the most common label ` +
        `(${formatPercent(majority)}). Check the order of the labels.`,
    );
  if (facts.dropoutOn)
    warn("dropout", "The victim returned different answers for the same text. Check that dropout is off.");

  for (const [name, { hasBudget, lateSuccesses, attacked }] of Object.entries(attacks))
    if (hasBudget && lateSuccesses > Math.max(1, 0.01 * attacked))
      warn(
        "not-converged",
        `${name} may not have converged: ${lateSuccesses} of ${attacked} examples were fooled in the last 10% of the ` +
          "budget. Increase the budget.",
      );
  for (const [name, { checks = [] }] of Object.entries(attacks))
    for (const { name: check, message } of checks.filter(({ isPassed }) => isPassed === false))
      warn(`check-${check}`, `${name}: ${notAdequate}: ${message}.`);

  if (space.modifiableWords < 0.1 * space.words)
    warn(
      "few-substitutes",
      `Only ${space.modifiableWords.toFixed(1)} of ${space.words.toFixed(1)} words per text have substitutes, so the ` +
        "attack space is small.",
    );
  if (trainedTokenization !== undefined && tokenization !== undefined && trainedTokenization !== tokenization)
    warn(
      "tokenization",
      `The model was trained with ${trainedTokenization} tokenization, but attacked with ${tokenization} tokenization.`,
    );
  return warnings;
}

function isClearlyLower(lower: number, higher: number, count: number): boolean {
  const middle = (lower + higher) / 2;
  return higher - lower > significantStandardErrors * Math.sqrt((middle * (1 - middle)) / count);
}
