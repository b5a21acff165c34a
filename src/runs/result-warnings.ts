import { formatNumber } from "../base/format.js";
import { describeDegeneracy } from "../evaluation/degenerate.js";
import { mean } from "../evaluation/statistics.js";
import type { TrainSettings } from "../train/index.js";
import type { EvaluationResult } from "./results.js";
import type { RunEvent } from "./run-folder.js";

/** Predictions whose log-loss is this many times that of guessing are confident and often wrong. */
const divergedRatio = 3;

function computeLabelEntropy(counts: readonly number[]): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return counts.reduce((sum, count) => (count === 0 ? sum : sum - (count / total) * Math.log(count / total)), 0);
}

export function listResultWarnings(result: EvaluationResult): string[] {
  const { confusionMatrix, labels, metrics, task, split, hiddenTexts, examples } = result;
  const warnings: string[] = [];
  const degeneracy = describeDegeneracy(confusionMatrix, labels);
  if (degeneracy)
    warnings.push(
      `The model is degenerate on ${task} ${split}: ${degeneracy}. Do not draw conclusions from its results.`,
    );
  const loss = metrics["log-loss"];
  const guess = computeLabelEntropy(confusionMatrix.map((row) => row.reduce((sum, count) => sum + count, 0)));
  if (loss !== undefined && guess > 0 && loss > divergedRatio * guess)
    warnings.push(
      `The log-loss on ${task} ${split} is ${formatNumber(loss, 3)}, but guessing gives ${formatNumber(guess, 3)}. ` +
        "Training may have diverged. Try a lower learning rate.",
    );
  if (hiddenTexts > 0)
    warnings.push(
      `${hiddenTexts} of ${examples} texts of ${task} ${split} have hidden text, such as Unicode tags, which a language ` +
        "model reads and nobody sees.",
    );
  return warnings;
}

/** The last steps, whose mean loss counts as the final loss. */
const finalStepFraction = 0.1;
const divergedLossRatio = 1.5;
const underfitLossRatio = 0.95;

export interface LossBaseline {
  readonly counts: readonly number[];
  readonly settings: Pick<TrainSettings, "batchSampler">;
  /** The factor of each label; null if all are 1. */
  readonly classWeights: readonly number[] | null;
}

export function computeGuessLoss({ counts, settings, classWeights }: LossBaseline): number {
  const isBalanced = settings.batchSampler === "class-balanced" || settings.batchSampler === "undersampled";
  const present = counts.map((count) => (isBalanced ? Number(count > 0) : count));
  const total = present.reduce((sum, count) => sum + count, 0);
  const masses = present.map((count, label) => (count / total) * (classWeights?.[label] ?? 1));
  const mass = masses.reduce((sum, value) => sum + value, 0);
  return masses.reduce((sum, value) => (value === 0 ? sum : sum - value * Math.log(value / mass)), 0);
}

export function listLossWarnings(events: readonly RunEvent[], baseline: LossBaseline): string[] {
  const losses = events.flatMap((event) => {
    const loss = event["loss.task"] ?? event.loss;
    return typeof loss === "number" ? [loss] : [];
  });
  const guess = computeGuessLoss(baseline);
  if (losses.length === 0 || guess === 0) return [];
  const count = Math.ceil(finalStepFraction * losses.length);
  const final = mean(losses.slice(-count));
  const facts =
    `the training loss of the last ${count === 1 ? "step" : `${count} steps`} is ${formatNumber(final, 3)}, ` +
    `and guessing gives ${formatNumber(guess, 3)}`;
  if (final > divergedLossRatio * guess) return [`Training diverged: ${facts}. Use a lower learning rate.`];
  if (final > underfitLossRatio * guess)
    return [`The model has hardly learned: ${facts}. Train longer, or use another learning rate.`];
  return [];
}
