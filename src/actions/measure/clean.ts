import { type Callbacks, reportProgress } from "../../base/events.js";
import { describeDegeneracy } from "../../evaluation/degenerate.js";
import { computeMetrics, confusionMatrix, toPredictions } from "../../evaluation/metrics.js";
import {
  computeOperatingPoints,
  type LabeledScore,
  type OperatingPoints,
  scoreLabel,
} from "../../evaluation/operating-points.js";
import { summarizeSlices } from "../../evaluation/slices.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import type { Predictor } from "../../models/inference/predictor.js";
import { type Guard, summarizeGuard } from "../../proofs/certificates/index.js";
import { hashExamples } from "../../runs/environment.js";
import type { EvaluationResult } from "../../runs/results.js";
import type { Example, Split } from "../../tasks/index.js";
import { findHiddenText } from "../../text/hidden-text.js";
import { findPositiveLabel, type UsedAnswer } from "../predict/certified-model.js";

interface MeasuredTexts {
  readonly name: string;
  readonly split: Split;
  readonly labels: readonly string[];
}

export interface AnswerUse {
  readonly threshold?: number | null;
  readonly positiveLabel?: string | null;
  readonly guard?: Guard | null;
}

/**
 * Computes every number about texts without an attack from the answers of a model. evaluate, gate and audit
 * have their numbers from here.
 */
export function summarizeAnswers(
  { name, split, labels: names }: MeasuredTexts,
  examples: readonly Example[],
  answers: readonly UsedAnswer[],
  { threshold = null, positiveLabel = null, guard = null }: AnswerUse = {},
): EvaluationResult {
  const probabilities = answers.map((answer) => answer.probabilities);
  const labels = examples.map((example) => example.label);
  const positive = guard?.positiveLabel ?? findEvaluatedLabel(names, positiveLabel);
  const scores = positive === null ? null : scoreLabel(probabilities, labels, positive);
  const operatingPoints = scores && computeOperatingPoints(scores);
  const predicted = toPredictions(probabilities, threshold, positive ?? 1);
  const matrix = confusionMatrix(predicted, labels, names.length);
  const correct = labels.map((label, i) => Number(predicted[i] === label)).join("");
  const count = correct.replaceAll("0", "").length;
  return {
    task: name,
    split,
    examples: labels.length,
    accuracy: count / labels.length,
    interval: wilsonInterval(count, labels.length),
    threshold,
    metrics: computeMetrics(probabilities, labels, names, threshold, positive ?? 1),
    confusionMatrix: matrix,
    degeneracy: describeDegeneracy(matrix, names),
    labels: [...names],
    hiddenTexts: examples.filter(({ texts }) => findHiddenText(texts) !== null).length,
    positiveLabel: positive === null ? null : names[positive]!,
    ...(guard && scores && { guard: evaluateGuard(scores, answers, names, guard) }),
    auc: operatingPoints?.auc ?? null,
    recallAtFpr: operatingPoints && listRecalls(operatingPoints),
    operatingPoints,
    benign: [],
    slices: summarizeSlices(
      examples.flatMap(({ slice }, i) =>
        slice === undefined ? [] : [{ slice, isCorrect: correct[i] === "1", score: scores?.[i] ?? null }],
      ),
      operatingPoints,
    ),
    outcomes: { examples: hashExamples(examples), correct },
  };
}

function findEvaluatedLabel(labels: readonly string[], given: string | null): number | null {
  return given === null && labels.length !== 2 ? null : findPositiveLabel(labels, given);
}

function listRecalls({ pointAtFpr }: OperatingPoints): Record<string, number> {
  return Object.fromEntries(Object.entries(pointAtFpr).map(([rate, { recall }]) => [rate, recall]));
}

function evaluateGuard(
  scores: readonly LabeledScore[],
  answers: readonly UsedAnswer[],
  names: readonly string[],
  { threshold, fpr, positiveLabel, windows }: Guard,
): EvaluationResult["guard"] {
  const texts = scores.map((score, i) => ({
    ...score,
    isCertified: windows === null ? null : answers[i]?.certified?.edits === null,
  }));
  return { ...summarizeGuard(texts, threshold), positiveLabel: names[positiveLabel]!, fpr, windows };
}

/** Texts per call, so that progress is visible. */
const maxCallSize = 1024;

/** Asks an open model for texts. Row i of the result are the probabilities of text i. */
export async function askModel(
  predictor: Predictor,
  texts: readonly (readonly string[])[],
  stage: string,
  callbacks: Callbacks,
  { done: before, total }: { readonly done: number; readonly total: number } = { done: 0, total: texts.length },
): Promise<Float32Array[]> {
  let done = before;
  const answers = await predictor.predict(predictor.prepare(texts), {
    maxCallSize,
    onCall(found) {
      done += found.size;
      reportProgress(callbacks, stage, done, total);
    },
  });
  return answers.map(({ probabilities }) => Float32Array.from(probabilities));
}
