import { z } from "zod";
import { groupBy } from "../base/group-by.js";
import type { LabeledScore, OperatingPoints } from "./operating-points.js";
import { intervalSchema, wilsonInterval } from "./statistics.js";

/** The texts with one value of a column, such as one category of attacks. */
export const sliceSchema = z.object({
  name: z.string(),
  examples: z.int(),
  accuracy: z.number(),
  interval: intervalSchema,
  /** The number of texts with the positive label. */
  positives: z.int(),
  /** The recall of these, by the false-positive rate of the threshold on all texts; empty without any. */
  recallAtFpr: z.record(z.string(), z.object({ recall: z.number(), interval: intervalSchema })),
});
export type Slice = Readonly<z.output<typeof sliceSchema>>;

/**
 * Summarizes the texts of each value, the most frequent first, at the thresholds of all texts. They have
 * scores if there is a positive label.
 */
export function summarizeSlices(
  texts: readonly { readonly slice: string; readonly isCorrect: boolean; readonly score: LabeledScore | null }[],
  points: OperatingPoints | null,
): Slice[] {
  const groups = [...groupBy(texts, ({ slice }) => slice)];
  return groups
    .sort(([a, { length: first }], [b, { length: second }]) => second - first || (a < b ? -1 : 1))
    .map(([name, own]) => {
      const correct = own.filter(({ isCorrect }) => isCorrect).length;
      const scores = own.flatMap(({ score }) => (score?.isPositive ? [score.score] : []));
      const computeRecall = (threshold: number | null) => {
        const flagged = threshold === null ? 0 : scores.filter((score) => score >= threshold).length;
        return { recall: flagged / scores.length, interval: wilsonInterval(flagged, scores.length) };
      };
      const limits = Object.entries(scores.length > 0 ? (points?.pointAtFpr ?? {}) : {});
      return {
        name,
        examples: own.length,
        accuracy: correct / own.length,
        interval: wilsonInterval(correct, own.length),
        positives: scores.length,
        recallAtFpr: Object.fromEntries(limits.map(([rate, { threshold }]) => [rate, computeRecall(threshold)])),
      };
    });
}
