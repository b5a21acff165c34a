import { z } from "zod";
import type { LabeledScore } from "./operating-points.js";

/** Precision and recall of the positive label if it is predicted from a threshold on. */
const pointSchema = z.object({ threshold: z.number(), precision: z.number(), recall: z.number() });

export const precisionRecallSchema = z.object({
  /** The area below all steps of the curve. */
  averagePrecision: z.number(),
  /** Thresholds in rising order; at most `maxPoints`. */
  points: z.array(pointSchema),
});

/** The precision-recall curve of one label. */
export type PrecisionRecall = z.output<typeof precisionRecallSchema>;

/** A figure needs no more points. */
const maxPoints = 200;

/**
 * Computes the curve of the label that some scores are of, one point per different score. Null if no
 * example has that label.
 */
export function computePrecisionRecall(scored: readonly LabeledScore[]): PrecisionRecall | null {
  const scores = [...scored];
  const positives = scores.filter(({ isPositive }) => isPositive).length;
  if (positives === 0) return null;
  scores.sort((a, b) => b.score - a.score);
  const points: z.output<typeof pointSchema>[] = [];
  let [found, averagePrecision, recallBefore] = [0, 0, 0];
  for (const [i, { score, isPositive }] of scores.entries()) {
    found += Number(isPositive);
    if (scores[i + 1]?.score === score) continue;
    const [precision, recall] = [found / (i + 1), found / positives];
    averagePrecision += precision * (recall - recallBefore);
    recallBefore = recall;
    points.push({ threshold: score, precision, recall });
  }
  points.reverse();
  const step = Math.max(1, (points.length - 1) / (maxPoints - 1));
  const count = Math.min(points.length, maxPoints);
  return { averagePrecision, points: Array.from({ length: count }, (_, i) => points[Math.round(i * step)]!) };
}
