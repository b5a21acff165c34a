import { formatCount, formatInterval, formatPercent } from "../base/format.js";
import { confusionMatrix as createConfusionMatrix } from "./metrics.js";
import { wilsonInterval } from "./statistics.js";

type ConfusionMatrix = readonly (readonly number[])[];

/** A model that predicts one label for at least this fraction of the texts is constant, … */
const constantFraction = 0.98;
/** … unless one label has more than this fraction of the texts. */
const majorityFraction = 0.9;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/**
 * The mean of the recalls of all labels that occur, with its 95% CI and the value of a guess. The recalls are
 * independent, so their Wilson intervals combine as the root of the sum of squares. Unlike the
 * normal approximation, that is not zero at 0% and 100%.
 */
export function computeBalancedAccuracy(confusionMatrix: ConfusionMatrix) {
  const recalls = confusionMatrix.flatMap((row, label) => {
    const count = sum(row);
    return count === 0 ? [] : [{ value: row[label]! / count, ...wilsonInterval(row[label]!, count) }];
  });
  const value = sum(recalls.map((recall) => recall.value)) / recalls.length;
  const combine = (distances: readonly number[]): number => Math.hypot(...distances) / recalls.length;
  return {
    value,
    low: value - combine(recalls.map((recall) => recall.value - recall.low)),
    high: value + combine(recalls.map((recall) => recall.high - recall.value)),
    chance: 1 / recalls.length,
  };
}

/** `describeDegeneracy` of predicted labels. */
export function describeDegeneratePredictions(
  predicted: ArrayLike<number>,
  gold: readonly number[],
  labels: readonly string[],
): string | null {
  return describeDegeneracy(createConfusionMatrix(predicted, gold, labels.length), labels);
}

/** The sentence that marks the result of a degenerate model, such as its exact accuracy. */
export function formatDegeneracy(degeneracy: string, result: string): string {
  return `The model is degenerate: ${degeneracy}. Draw no conclusion from its ${result}.`;
}

/**
 * Explains why a model is degenerate: it predicts one label for nearly all texts, or it cannot be
 * told from guessing. Such a model can look robust, because no attack changes its answer. Null if
 * the model is not degenerate, or if the texts have only one label. Rows of the matrix are gold
 * labels.
 */
export function describeDegeneracy(confusionMatrix: ConfusionMatrix, labels: readonly string[] = []): string | null {
  const gold = confusionMatrix.map(sum);
  const texts = sum(gold);
  if (gold.filter((count) => count > 0).length < 2) return null;
  const predicted = gold.map((_, label) => sum(confusionMatrix.map((row) => row[label]!)));
  const most = Math.max(...predicted);
  if (most >= constantFraction * texts && Math.max(...gold) <= majorityFraction * texts) {
    const label = predicted.indexOf(most);
    const name = labels[label] ?? `label ${label}`;
    return `it predicts ${name} for ${formatCount(most)} of ${formatCount(texts)} texts`;
  }
  const { value, low, high, chance } = computeBalancedAccuracy(confusionMatrix);
  if (low > chance) return null;
  const interval = `95% CI ${formatInterval(Math.max(0, low), Math.min(1, high))}`;
  return (
    `its balanced accuracy of ${formatPercent(value)} on ${formatCount(texts)} texts (${interval}) ` +
    `cannot be told from guessing (${formatPercent(chance)})`
  );
}
