import { z } from "zod";
import { describeMetric, formatWithUnit, fprAtRecallPrefix, recallAtFprPrefix } from "./metric-table.js";
import { normalQuantile } from "./special-functions.js";
import { type Interval, intervalSchema, wilsonInterval } from "./statistics.js";

/** The false-positive rates at which guards are compared. */
const comparedRates = [0.001, 0.01, 0.05] as const;

const comparedRecall = 0.95;

const pointSchema = z.object({
  /** A text is flagged if its score is at least this; null: no threshold flags anything within the limit. */
  threshold: z.number().nullable(),
  /** The fraction of texts of the positive label that are flagged. */
  recall: z.number(),
  recallInterval: intervalSchema,
  /** The fraction of the other texts that are flagged. */
  falsePositiveRate: z.number(),
  falsePositiveInterval: intervalSchema,
});

export const operatingPointsSchema = z.object({
  /** The numbers of texts with the positive label and with another one. */
  positives: z.int(),
  negatives: z.int(),
  /** The probability that a text of the positive label scores higher than another text. */
  auc: z.number(),
  aucInterval: intervalSchema,
  /** The lowest false-positive rate whose recall is at least the key. */
  fprAtRecall: z.record(z.string(), z.number()),
  /** The point of the highest recall whose false-positive rate is at most the key. */
  pointAtFpr: z.record(z.string(), pointSchema),
  /** Points in rising order of their thresholds; at most `maxPoints`. */
  curve: z.array(pointSchema),
});

/** The probability of a label, and whether the text has that label. */
export interface LabeledScore {
  readonly score: number;
  readonly isPositive: boolean;
}

/** The separation of one label's texts from the others by their scores, at every threshold. */
export type OperatingPoints = Readonly<z.output<typeof operatingPointsSchema>>;
type OperatingPoint = Readonly<z.output<typeof pointSchema>>;

/** The fraction of the flagged texts that have the positive label, at a point of the curve. */
export function computePrecision(
  { recall, falsePositiveRate }: Pick<OperatingPoint, "recall" | "falsePositiveRate">,
  { positives, negatives }: Pick<OperatingPoints, "positives" | "negatives">,
): number {
  return (recall * positives) / (recall * positives + falsePositiveRate * negatives);
}

/** The points of a guard on its test split, without the curve. */
export const guardPointsSchema = operatingPointsSchema.omit({ curve: true });

export const guardMetricSchema = z.object({
  /** As in the list of metrics. */
  id: z.string(),
  value: z.number(),
  interval: intervalSchema,
  /** The number of texts: those of the positive label, the others, or all. */
  examples: z.int(),
});

/** The metrics of a guard at its operating points. Every table of them reads this list. */
export function listGuardMetrics({
  positives,
  negatives,
  auc,
  aucInterval,
  pointAtFpr,
  fprAtRecall,
}: z.output<typeof guardPointsSchema>): z.output<typeof guardMetricSchema>[] {
  return [
    { id: "auc", value: auc, interval: aucInterval, examples: positives + negatives },
    ...Object.entries(pointAtFpr).map(([rate, { recall, recallInterval }]) => ({
      id: `${recallAtFprPrefix}${rate}`,
      value: recall,
      interval: recallInterval,
      examples: positives,
    })),
    ...Object.entries(fprAtRecall).map(([recall, value]) => ({
      id: `${fprAtRecallPrefix}${recall}`,
      value,
      interval: wilsonInterval(Math.round(value * negatives), negatives),
      examples: negatives,
    })),
  ];
}

/** Describes the operating points of a guard in a sentence. */
export function describeGuardMetrics(metrics: ReturnType<typeof listGuardMetrics>): string {
  const parts = metrics.map(({ id, value, interval }) => {
    const [shown, low, high] = [value, interval.low, interval.high].map((each) => formatWithUnit(id, each));
    return `${describeMetric(id).title} ${shown} (95% CI ${low} to ${high})`;
  });
  return `${parts.join(", ")}.`;
}

/** A figure needs no more points. */
const maxPoints = 200;

/** Computes the operating points of scores. Null if all texts are positive, or none is. */
export function computeOperatingPoints(texts: readonly LabeledScore[]): OperatingPoints | null {
  const positives = texts.filter(({ isPositive }) => isPositive).length;
  const negatives = texts.length - positives;
  if (positives === 0 || negatives === 0) return null;
  const describe = (threshold: number | null, found: number, alarms: number): OperatingPoint => ({
    threshold,
    recall: found / positives,
    recallInterval: wilsonInterval(found, positives),
    falsePositiveRate: alarms / negatives,
    falsePositiveInterval: wilsonInterval(alarms, negatives),
  });
  const sorted = [...texts].sort((a, b) => b.score - a.score);
  const points: OperatingPoint[] = [];
  let [found, alarms, area] = [0, 0, 0];
  let [foundBefore, alarmsBefore] = [0, 0];
  for (const [i, { score, isPositive }] of sorted.entries()) {
    found += Number(isPositive);
    alarms += Number(!isPositive);
    if (sorted[i + 1]?.score === score) continue;
    // Of two equal scores, each is the higher one with probability 1/2: the area of a trapezoid.
    area += ((alarms - alarmsBefore) * (found + foundBefore)) / 2;
    [foundBefore, alarmsBefore] = [found, alarms];
    points.push(describe(score, found, alarms));
  }
  const auc = area / (positives * negatives);
  const pointAtFpr = Object.fromEntries(
    comparedRates.map((rate) => [
      rate,
      points.findLast(({ falsePositiveRate }) => falsePositiveRate <= rate) ?? describe(null, 0, 0),
    ]),
  );
  const first = points.find(({ recall }) => recall >= comparedRecall)!;
  points.reverse();
  const count = Math.min(points.length, maxPoints);
  const step = (points.length - 1) / Math.max(1, count - 1);
  return {
    positives,
    negatives,
    auc,
    aucInterval: computeAucInterval(auc, positives, negatives),
    fprAtRecall: { [comparedRecall]: first.falsePositiveRate },
    pointAtFpr,
    curve: Array.from({ length: count }, (_, i) => points[Math.round(i * step)]!),
  };
}

/**
 * The 95% confidence interval of an area under the ROC curve: all areas that the observed one does not
 * differ from significantly, with the variance of Hanley and McNeil 1982 (method 5 of Newcombe 2006).
 * It does not shrink to a point if the labels are separated without an error.
 */
function computeAucInterval(auc: number, positives: number, negatives: number): Interval {
  const z = normalQuantile(0.975);
  const middle = (positives + negatives) / 2 - 1;
  const isWithin = (area: number): boolean => {
    const spread = 1 + middle * ((1 - area) / (2 - area) + area / (1 + area));
    return (auc - area) ** 2 <= (z * z * area * (1 - area) * spread) / (positives * negatives);
  };
  // The areas within are an interval around the observed one.
  const search = (outside: number): number => {
    let [inner, outer] = [auc, outside];
    for (let i = 0; i < 60; i++) {
      const area = (inner + outer) / 2;
      if (isWithin(area)) inner = area;
      else outer = area;
    }
    return inner;
  };
  return { low: search(0), high: search(1) };
}

/** Takes the probability of one label from each row. */
export function scoreLabel(
  probabilities: readonly ArrayLike<number>[],
  labels: ArrayLike<number>,
  label: number,
): LabeledScore[] {
  return probabilities.map((row, i) => ({ score: row[label]!, isPositive: labels[i] === label }));
}
