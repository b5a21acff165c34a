import { z } from "zod";
import { formatInterval, formatNumber, formatPercent } from "../../base/format.js";
import { intervalSchema, wilsonInterval } from "../../evaluation/statistics.js";

/** A model with two labels that flags texts of one of them. */
export interface Guard {
  /** Maximum words per window; null if complete texts are scored. */
  readonly windows: number | null;
  /** The index of the label that is flagged. */
  readonly positiveLabel: number;
  /** A text is flagged if its score is above. */
  readonly threshold: number;
  /** The false-positive rate that the threshold promises; null if it was not calibrated. */
  readonly fpr: number | null;
}

/** The rates of a guard at its threshold, with 95% confidence intervals. */
export const guardSummarySchema = z.object({
  /** A text is flagged if the score of the positive label is above. */
  threshold: z.number(),
  /** The fraction of texts of the positive label that are flagged; null if there are none. */
  recall: z.number().nullable(),
  recallInterval: intervalSchema.nullable(),
  /** The fraction of other texts that are flagged; null if there are none. */
  falsePositiveRate: z.number().nullable(),
  falsePositiveInterval: intervalSchema.nullable(),
  /** The fraction of texts of the positive label that no text before or after can hide. */
  certifiedRecall: z.number().nullable().optional(),
});
export type GuardSummary = Readonly<z.output<typeof guardSummarySchema>>;

/** Counts the texts that a guard flags. */
export function summarizeGuard(
  texts: readonly { readonly score: number; readonly isPositive: boolean; readonly isCertified?: boolean | null }[],
  threshold: number,
): GuardSummary {
  const count = (wanted: boolean): { flagged: number; total: number } => {
    const scores = texts.filter(({ isPositive }) => isPositive === wanted).map(({ score }) => score);
    return { flagged: scores.filter((score) => score > threshold).length, total: scores.length };
  };
  const [positive, other] = [count(true), count(false)];
  const rate = ({ flagged, total }: typeof positive): number | null => (total === 0 ? null : flagged / total);
  const interval = ({ flagged, total }: typeof positive) => (total === 0 ? null : wilsonInterval(flagged, total));
  const certified = texts.filter(({ isPositive, isCertified }) => isPositive && isCertified === true).length;
  const hasCertificates = texts.some(({ isCertified }) => typeof isCertified === "boolean");
  return {
    threshold,
    recall: rate(positive),
    recallInterval: interval(positive),
    falsePositiveRate: rate(other),
    falsePositiveInterval: interval(other),
    ...(hasCertificates && { certifiedRecall: positive.total === 0 ? null : certified / positive.total }),
  };
}

/** Describes the rates of a guard in a sentence. */
export function describeGuard(guard: GuardSummary): string {
  const { threshold, recall, recallInterval, falsePositiveRate, falsePositiveInterval, certifiedRecall = null } = guard;
  const describe = (name: string, rate: number | null, interval: GuardSummary["recallInterval"]): string[] =>
    rate === null || interval === null
      ? []
      : [`${name} ${formatPercent(rate)} (95% CI ${formatInterval(interval.low, interval.high)})`];
  const parts = [
    ...describe("recall", recall, recallInterval),
    ...(certifiedRecall === null ? [] : [`certified recall ${formatPercent(certifiedRecall)}`]),
    ...describe("false-positive rate", falsePositiveRate, falsePositiveInterval),
  ];
  return `At the threshold ${formatNumber(threshold, 6)}: ${parts.join(", ")}.`;
}
