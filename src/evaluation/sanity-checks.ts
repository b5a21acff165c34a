import { z } from "zod";
import { formatPercent } from "../base/format.js";
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
  /** Names of the attacks that use gradients. */
  readonly whiteBox?: readonly string[];
  /** Names of the attacks that use texts from another model. */
  readonly transfer?: readonly string[];
}

export const sanityWarningSchema = z.object({ name: z.string(), message: z.string() });
export type SanityWarning = z.output<typeof sanityWarningSchema>;

/** Differences below this many standard errors are sampling noise. */
const significantStandardErrors = 2;

/** Checks a summary for signs that its numbers are misleading. */
export function runSanityChecks(summary: AttackSuiteSummary, facts: SanityFacts = {}): SanityWarning[] {
  const { clean, majority, attacks, space } = summary;
  const { trainedTokenization, tokenization, whiteBox = [], transfer = [] } = facts;
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

  const [black, white] = findStrongest(summary, (name) => !whiteBox.includes(name));
  if (black && white && isClearlyLower(black.accuracy, white.accuracy, summary.examples))
    warn(
      "black-beats-white",
      `${black.label} is stronger than the white-box attack ${white.label}. Its gradients may be masked, or it needs ` +
        "more steps.",
    );
  for (const [name, { hasBudget, lateSuccesses, attacked }] of Object.entries(attacks))
    if (hasBudget && lateSuccesses > Math.max(1, 0.01 * attacked))
      warn(
        "not-converged",
        `${name} may not have converged: ${lateSuccesses} of ${attacked} examples were fooled in the last 10% of the ` +
          "budget. Increase the budget.",
      );
  const [transferred, adaptive] = findStrongest(summary, (name) => transfer.includes(name));
  if (transferred && adaptive && isClearlyLower(transferred.accuracy, adaptive.accuracy, summary.examples))
    warn(
      "transfer-beats-adaptive",
      `${transferred.label}, with texts from another model, is stronger than ${adaptive.label}. The adaptive attack ` +
        "is too weak.",
    );

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

/** Returns the strongest attack that matches, and the strongest that does not. */
function findStrongest({ attacks }: AttackSuiteSummary, matches: (name: string) => boolean) {
  const sorted = Object.entries(attacks)
    .map(([name, { accuracyUnderAttack }]) => {
      const label = `${name} (${formatPercent(accuracyUnderAttack)})`;
      return { name, accuracy: accuracyUnderAttack, label };
    })
    .sort((a, b) => a.accuracy - b.accuracy);
  return [sorted.find(({ name }) => matches(name)), sorted.find(({ name }) => !matches(name))];
}

function isClearlyLower(lower: number, higher: number, count: number): boolean {
  const middle = (lower + higher) / 2;
  return higher - lower > significantStandardErrors * Math.sqrt((middle * (1 - middle)) / count);
}
