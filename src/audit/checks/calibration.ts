import { formatNumber, formatPercent, formatPoints } from "../../base/format.js";
import { softmax } from "../../base/softmax.js";
import { expectedCalibrationError, logLoss, toPredictions } from "../../evaluation/metrics.js";
import { mean, standardDeviation } from "../../evaluation/statistics.js";
import { type Claim, createClaim, rateSeverity } from "../claim.js";
import { type AuditContext, describeDomain } from "../context.js";

type PredictedRows = readonly (readonly number[])[];

/** Divides the logits by a temperature. Logarithms of probabilities are logits up to a constant. */
function scaleRow(row: readonly number[], temperature: number): number[] {
  return softmax(row.map((value) => Math.log(Math.max(value, 1e-12)) / temperature));
}

/** The temperature of the smallest log-loss (Guo et al. 2017), by golden section over its logarithm. */
function fitTemperature(rows: PredictedRows, labels: readonly number[]): number {
  const measure = (x: number): number =>
    logLoss(
      rows.map((row) => scaleRow(row, Math.exp(x))),
      labels,
    );
  const ratio = (Math.sqrt(5) - 1) / 2;
  let [low, high] = [Math.log(0.05), Math.log(20)];
  for (let i = 0; i < 40; i++) {
    const [a, b] = [high - ratio * (high - low), low + ratio * (high - low)];
    if (measure(a) < measure(b)) high = b;
    else low = a;
  }
  return Math.exp((low + high) / 2);
}

/** Differences of confidence and accuracy that matter. */
const limits = [0.03, 0.08, 0.2] as const;
/** A model that knows more than it says harms little. */
const minUnderconfidence = 0.15;

/** Compares confidence with accuracy. The temperature is fitted on one half and measured on the other one. */
export function checkCalibration(context: AuditContext): Claim {
  const { answers, examples } = context;
  const labels = examples.map(({ label }) => label);
  const predicted = toPredictions(answers);
  const gaps = answers.map((row, i) => Math.max(...row) - Number(predicted[i] === labels[i]));
  const [gap, error] = [mean(gaps), standardDeviation(gaps) / Math.sqrt(gaps.length)];
  const temperature = fitTemperature(answers, labels);
  const byHalf = [0, 1].map((half) => {
    const isOther = (_: unknown, i: number): boolean => i % 2 !== half;
    return fitTemperature(answers.filter(isOther), labels.filter(isOther));
  });
  const scaled = answers.map((row, i) => scaleRow(row, byHalf[i % 2]!));
  const [before, after] = [answers, scaled].map((rows) => expectedCalibrationError(rows, labels)) as [number, number];
  const isOver = gap - 2 * error > limits[0];
  const isUnder = -gap - 2 * error > minUnderconfidence;
  const word = gap > 0 ? "more" : "less";
  return createClaim({
    id: isUnder ? "underconfidence" : "overconfidence",
    area: "clean",
    severity: isOver ? rateSeverity(gap, limits) : isUnder ? "low" : null,
    claim: "Confidence agrees with accuracy (calibration).",
    summary:
      `Mean confidence is ${formatPoints(Math.abs(gap))} points ${word} than accuracy; the expected calibration error is ` +
      `${formatPercent(before)}, and ${formatPercent(after)} with a temperature of ${formatNumber(temperature, 3)}.`,
    domain: describeDomain(context),
    method: "mean confidence minus accuracy, at two standard errors; temperature scaling by cross-fitting",
    numbers: { gap, standardError: error, temperature, calibrationError: before, calibrationErrorScaled: after },
    remedy: {
      remedy: `Divide the logits by ${formatNumber(temperature, 3)} before the softmax. No prediction changes.`,
    },
  });
}
