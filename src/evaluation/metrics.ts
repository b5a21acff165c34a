import { getRecallId } from "./metric-table.js";

type Labels = ArrayLike<number>;
type ProbabilityRows = readonly ArrayLike<number>[];

/**
 * The class of highest probability of each row; the first of equals. With a threshold, the second
 * (or `positive`) of two classes if its probability is at least that.
 */
export function toPredictions(
  probabilities: ProbabilityRows,
  threshold: number | null = null,
  positive = 1,
): Int32Array {
  return Int32Array.from(probabilities, (row) => {
    if (threshold !== null) return row[positive]! >= threshold ? positive : 1 - positive;
    let best = 0;
    for (let i = 1; i < row.length; i++) if (row[i]! > row[best]!) best = i;
    return best;
  });
}

/** Share of predictions that are right. */
export function accuracy(predicted: Labels, labels: Labels): number {
  let right = 0;
  for (let i = 0; i < labels.length; i++) if (predicted[i] === labels[i]) right++;
  return right / labels.length;
}

/** Counts: row = gold label, column = prediction. */
export function confusionMatrix(predicted: Labels, labels: Labels, classes: number): number[][] {
  const table = Array.from({ length: classes }, () => new Array<number>(classes).fill(0));
  for (let i = 0; i < labels.length; i++) table[labels[i]!]![predicted[i]!]!++;
  return table;
}

/** F1 of one class; 0 where it is neither there nor predicted. */
export function f1(predicted: Labels, labels: Labels, positive = 1): number {
  let [both, either] = [0, 0];
  for (let i = 0; i < labels.length; i++) {
    both += Number(labels[i] === positive && predicted[i] === positive);
    either += Number(labels[i] === positive) + Number(predicted[i] === positive);
  }
  return either === 0 ? 0 : (2 * both) / either;
}

/** Mean F1 over the classes that are there or predicted. */
export function macroF1(predicted: Labels, labels: Labels): number {
  const seen = [...new Set([...Array.from(labels), ...Array.from(predicted)])];
  return seen.reduce((sum, label) => sum + f1(predicted, labels, label), 0) / seen.length;
}

/** Matthews correlation for any number of classes; 0 where one side is constant. */
export function matthewsCorrelation(predicted: Labels, labels: Labels): number {
  const size = 1 + [labels, predicted].flatMap((list) => Array.from(list)).reduce((a, b) => Math.max(a, b), 0);
  const table = confusionMatrix(predicted, labels, size);
  const gold = table.map((row) => row.reduce((a, b) => a + b, 0));
  const guessed = table.map((_, column) => table.reduce((sum, row) => sum + row[column]!, 0));
  const count = labels.length;
  const right = table.reduce((sum, row, i) => sum + row[i]!, 0);
  const product = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const spread = Math.sqrt((count ** 2 - product(guessed, guessed)) * (count ** 2 - product(gold, gold)));
  return spread === 0 ? 0 : (right * count - product(gold, guessed)) / spread;
}

/** Mean negative logarithm of the gold label's probability; probabilities are kept off 0. */
export function logLoss(probabilities: ProbabilityRows, labels: Labels): number {
  const sum = probabilities.reduce((total, row, i) => total - Math.log(Math.max(row[labels[i]!]!, 1e-15)), 0);
  return sum / labels.length;
}

/**
 * Expected calibration error: the gap between confidence and accuracy, averaged over bins of
 * confidence.
 */
export function expectedCalibrationError(probabilities: ProbabilityRows, labels: Labels, bins = 15): number {
  const predicted = toPredictions(probabilities);
  const gaps = new Float64Array(bins);
  probabilities.forEach((row, i) => {
    const confidence = row[predicted[i]!]!;
    // A bin is open below and closed above: a confidence of 1 falls into the last.
    const bin = Math.max(0, Math.ceil(confidence * bins) - 1);
    gaps[bin] = gaps[bin]! + confidence - Number(predicted[i] === labels[i]);
  });
  return gaps.reduce((sum, gap) => sum + Math.abs(gap), 0) / labels.length;
}

/** The recall of each class; null for a class without examples. */
function computeRecalls(predicted: Labels, labels: Labels, classes: number): (number | null)[] {
  return confusionMatrix(predicted, labels, classes).map((row, label) => {
    const count = row.reduce((sum, value) => sum + value, 0);
    return count === 0 ? null : row[label]! / count;
  });
}

/** Mean recall over the classes that are there. */
function balancedAccuracy(predicted: Labels, labels: Labels): number {
  const classes = 1 + [labels, predicted].flatMap((list) => Array.from(list)).reduce((a, b) => Math.max(a, b), 0);
  const recalls = computeRecalls(predicted, labels, classes).filter((recall) => recall !== null);
  return recalls.reduce((sum, recall) => sum + recall, 0) / recalls.length;
}

const microF1Name = "micro-f1";

type Metric = (predicted: Labels, labels: Labels, probabilities: ProbabilityRows, positive?: number) => number;

/** The metrics of every task. Only log-loss and calibration need probabilities. */
export const metrics: Readonly<Record<string, Metric>> = {
  accuracy,
  f1: (predicted, labels, _probabilities, positive) => f1(predicted, labels, positive),
  // With one label per text, every error is one false positive and one false negative.
  [microF1Name]: accuracy,
  "macro-f1": macroF1,
  "balanced-accuracy": balancedAccuracy,
  matthews: matthewsCorrelation,
  "log-loss": (_predicted, labels, probabilities) => logLoss(probabilities, labels),
  "calibration-error": (_predicted, labels, probabilities) => expectedCalibrationError(probabilities, labels),
};

/**
 * The metrics of a task with these classes. F1 needs a positive class, the second of two. Micro F1
 * is for more classes. Each class has a recall.
 */
export function listMetrics(classNames: readonly string[]): string[] {
  const names = Object.keys(metrics).filter((name) => name !== (classNames.length === 2 ? microF1Name : "f1"));
  return [...names, ...classNames.map(getRecallId)];
}

/** Computes every metric of a task. The recall of a class without examples is missing. F1 is that of `positive`. */
export function computeMetrics(
  probabilities: ProbabilityRows,
  labels: Labels,
  classNames: readonly string[],
  threshold: number | null = null,
  positive = 1,
): Record<string, number> {
  const predicted = toPredictions(probabilities, threshold, positive);
  const recalls = computeRecalls(predicted, labels, classNames.length);
  const recallIds = new Map(classNames.map((name, label) => [getRecallId(name), label]));
  return Object.fromEntries(
    listMetrics(classNames).flatMap((name): [string, number][] => {
      const label = recallIds.get(name);
      const value = label === undefined ? metrics[name]!(predicted, labels, probabilities, positive) : recalls[label]!;
      return value === null ? [] : [[name, value]];
    }),
  );
}
