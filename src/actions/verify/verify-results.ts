import { existsSync, readdirSync } from "node:fs";
import { z } from "zod";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { readJson } from "../../base/files.js";
import { readJsonIfExists } from "../../base/read-json.js";
import {
  describeDifference,
  type FileVerification,
  findDifference,
  type VerifiedClass,
} from "../../base/verification.js";
import { type LabeledScore, scoreLabel } from "../../evaluation/operating-points.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import { getTieMargin } from "../../proofs/certificates/index.js";
import { readCalibration } from "../../runs/calibration.js";
import { advglueResultSchema, type EvaluationResult } from "../../runs/results.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import type { Example, Task } from "../../tasks/index.js";
import { loadAdvglueTasks } from "../evaluate.js";
import { limitExamples, loadConfiguredTask } from "../load/load-task.js";
import { askModel, summarizeAnswers } from "../measure/clean.js";
import { wrapUse } from "../predict/certified-model.js";
import { loadClassifier, type TextClassifier } from "../predict/text-classifier.js";

export async function verifyResults(
  run: RunFolder,
  { device, threads }: Pick<RuntimeOptions, "device" | "threads">,
  callbacks: Callbacks,
): Promise<FileVerification[]> {
  const { config } = run;
  const results = await run.results();
  if (!results) return [];
  const trained = (await run.environment())?.precision;
  const precision = trained === "bf16" ? "bf16" : "fp32";
  await using classifier = await loadClassifier(run.folder, { device, threads, precision, onEvent: callbacks.onEvent });
  const isSame = trained === "fp32" && classifier.runtime.precision === "fp32";
  const margin = getTieMargin(isSame ? "fp32" : "bf16");
  const check = async (
    path: string,
    recorded: Partial<EvaluationResult> & Pick<EvaluationResult, "examples">,
    loadData: () => Promise<{ readonly task: Task; readonly examples: readonly Example[] }>,
  ): Promise<VerifiedClass[]> => {
    const found = await loadData().catch((error: unknown) => {
      if (error instanceof UserError) return null;
      throw error;
    });
    const what = "texts of a test result, whose data is not here";
    if (!found) return [{ count: recorded.examples, what, isVerified: false }];
    const { task, examples } = found;
    return checkResult(path, recorded, { classifier, examples, name: task.name, margin }, callbacks);
  };
  const path = run.path("results");
  const written = z.object({ test: z.looseObject({}) }).parse(await readJson(path, "the run's results"));
  const recorded = { ...selectKeys(results.test, written.test), examples: results.test.examples };
  const tested = await check(path, recorded, async () => {
    const task = await loadConfiguredTask(config, callbacks);
    return { task, examples: limitExamples(task, await task.load("test"), config.maxTestSamples, 0) };
  });
  const missing = Object.keys(results.test).filter((key) => !(key in written.test));
  const lacking = { count: missing.length, what: `numbers that the test result lacks (${missing})`, isVerified: false };
  const found: FileVerification[] = [
    { journal: path, lines: results.test.examples, classes: [...tested, lacking, ...(await listRecorded(run))] },
  ];
  const adversarial = await readJsonIfExists(run.path("advglue"), advglueResultSchema, "the result");
  if (adversarial) {
    const { drop, glue, advglue } = adversarial;
    const parts: VerifiedClass[] = [];
    for (const part of ["glue", "advglue"] as const)
      parts.push(
        ...(await check(run.path("advglue"), adversarial[part], async () => {
          const task = (await loadAdvglueTasks(classifier.model, null, callbacks))[part];
          return { task, examples: await task.load("test") };
        })),
      );
    checkEqual(run.path("advglue"), { drop }, [{ drop: glue.accuracy - advglue.accuracy }]);
    found.push({ journal: run.path("advglue"), lines: glue.examples + advglue.examples, classes: parts });
  }
  return found.map((each) => ({ ...each, classes: each.classes.filter(({ count }) => count > 0) }));
}

/** What lists, tables and reports show of a run, but only training, a calibration or an analysis could measure again. */
async function listRecorded(run: RunFolder): Promise<VerifiedClass[]> {
  const analyses = existsSync(run.path("analysis")) ? readdirSync(run.path("analysis"), { recursive: true }) : [];
  const recorded: [count: number, what: string][] = [
    [1, "validation result, with what training says of itself"],
    [(await run.events()).length, "events of training with losses and validation values"],
    [Number((await readCalibration(run.folder)) !== null), "threshold of a guard, with its operating points"],
    [analyses.length, "files of analyses"],
  ];
  return recorded.map(([count, what]) => ({ count, what, isVerified: false }));
}

/** Versions that know fewer numbers wrote fewer keys. */
function selectKeys<T extends object>(value: T, written: object): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key in written)) as Partial<T>;
}

interface Measured {
  readonly classifier: TextClassifier;
  readonly examples: readonly Example[];
  readonly name: string;
  /** A probability can be another one by this much here. */
  readonly margin: number;
}

async function checkResult(
  path: string,
  recorded: Partial<EvaluationResult>,
  { classifier, examples, name, margin }: Measured,
  callbacks: Callbacks,
): Promise<VerifiedClass[]> {
  const { base, labels, use, model } = classifier;
  const predictor = wrapUse(base, { certified: use.certified, guard: null });
  const texts = examples.map((example) => example.texts);
  const rows = await askModel(predictor, texts, "verify test texts", callbacks);
  const { threshold = null, positiveLabel = null } = recorded;
  const summarize = (shift: number): EvaluationResult =>
    summarizeAnswers(
      { name, split: "test", labels },
      examples,
      rows.map((row, i) => ({ probabilities: shiftRow(row, examples[i]!.label, shift) })),
      { threshold, positiveLabel: labels.length > 2 ? positiveLabel : null },
    );
  const exact = summarize(0);
  const { outcomes = exact.outcomes } = recorded;
  if (outcomes.examples !== exact.outcomes.examples || outcomes.correct.length !== examples.length)
    throw new UserError(
      `${path}: its test texts are not those of ${name}. Restore the data that the run was tested on.`,
    );
  if (findDifference(recorded, [selectKeys(exact, recorded)]) !== null) {
    const [low, high] = [summarize(-margin), summarize(margin)];
    const isPossible = (bit: string, i: number): boolean =>
      bit >= low.outcomes.correct[i]! && bit <= high.outcomes.correct[i]!;
    const wrong = [...outcomes.correct].findIndex((bit, i) => !isPossible(bit, i));
    if (wrong >= 0)
      throw new UserError(`${path}: outcomes: ${model.reference} answers otherwise to text ${wrong + 1}.`);
    const count = outcomes.correct.replaceAll("0", "").length;
    const accuracy = count / examples.length;
    const counted = { accuracy, interval: wilsonInterval(count, examples.length), outcomes };
    const bounds = [exact, low, high].map((each) => ({ ...each, ...counted }));
    const positive = exact.positiveLabel === null ? null : labels.indexOf(exact.positiveLabel);
    const labelIds = examples.map(({ label }) => label);
    checkWithin(path, recorded, bounds, positive === null ? [] : scoreLabel(rows, labelIds, positive), margin);
  }
  const ties = [...outcomes.correct].filter((bit, i) => bit !== exact.outcomes.correct[i]).length;
  return [
    { count: examples.length - ties, what: `texts of ${name} classified again`, isVerified: true },
    { count: 1, what: "test result recomputed", isVerified: true },
    { count: ties, what: "near ties, which the model answers otherwise here", isVerified: false },
  ];
}

/** Moves the probability of the gold label, so that every number that depends on ranks or sums moves to its bound. */
function shiftRow(row: Float32Array, gold: number, shift: number): ArrayLike<number> {
  if (shift === 0) return row;
  const own = Math.min(1, Math.max(0, row[gold]! + shift));
  const rest = 1 - row[gold]!;
  return Array.from(row, (probability, label) => {
    if (label === gold) return own;
    return rest > 0 ? (probability * (1 - own)) / rest : (1 - own) / (row.length - 1);
  });
}

function checkWithin(
  path: string,
  recorded: Partial<EvaluationResult>,
  bounds: readonly EvaluationResult[],
  scores: readonly LabeledScore[],
  margin: number,
): void {
  const errorName = "calibration-error";
  const widen = (result: EvaluationResult, by: number): EvaluationResult => ({
    ...result,
    // The confidences move by the margin, and those at the edge of a bin move to the next one.
    metrics: { ...result.metrics, [errorName]: result.metrics[errorName]! + by },
  });
  const wide = bounds.flatMap((each) => [widen(each, -2 * margin), widen(each, 2 * margin)]);
  const strip = ({ operatingPoints, ...rest }: Partial<EvaluationResult>): object => {
    const { curve: _, pointAtFpr, ...points } = operatingPoints ?? {};
    const recalls = Object.entries(pointAtFpr ?? {}).map(([rate, { recall }]) => [rate, recall]);
    return { ...rest, points, recalls };
  };
  checkEqual(
    path,
    strip(recorded),
    wide.map((each) => strip(selectKeys(each, recorded))),
  );
  const [positives, negatives] = [true, false].map((wanted) =>
    scores.filter(({ isPositive }) => isPositive === wanted),
  ) as [LabeledScore[], LabeledScore[]];
  const isBetween = (share: number, texts: readonly LabeledScore[], threshold: number): boolean => {
    const count = (at: number): number => texts.filter(({ score }) => score >= at).length;
    const found = share * texts.length;
    return found >= count(threshold + margin) - 1e-6 && found <= count(threshold - margin) + 1e-6;
  };
  const isScore = (threshold: number): boolean => scores.some(({ score }) => Math.abs(score - threshold) <= margin);
  const ends = [Math.min, Math.max].map((end) => end(...scores.map(({ score }) => score)));
  /** A curve goes from the lowest score to the highest one. */
  const isCurve = (points: readonly { readonly threshold: number | null }[]): boolean =>
    points.every(({ threshold }, i) => i === 0 || threshold! > points[i - 1]!.threshold!) &&
    [points[0], points.at(-1)].every((point, i) => Math.abs(point!.threshold! - ends[i]!) <= margin);
  const reject = (point: object): never => {
    throw new UserError(`${path}: the model has no point ${JSON.stringify(point)}. Evaluate the model again.`);
  };
  const { operatingPoints } = recorded;
  if (operatingPoints && !isCurve(operatingPoints.curve)) reject(operatingPoints.curve);
  for (const point of [...(operatingPoints?.curve ?? []), ...Object.values(operatingPoints?.pointAtFpr ?? {})]) {
    const { threshold, recall, falsePositiveRate } = point;
    const at = threshold ?? Number.POSITIVE_INFINITY;
    if (
      (threshold !== null && !isScore(at)) ||
      !isBetween(recall, positives, at) ||
      !isBetween(falsePositiveRate, negatives, at)
    )
      reject(point);
    const recallInterval = wilsonInterval(Math.round(recall * positives.length), positives.length);
    const falsePositiveInterval = wilsonInterval(Math.round(falsePositiveRate * negatives.length), negatives.length);
    checkEqual(path, point, [{ ...point, recallInterval, falsePositiveInterval }]);
  }
}

function checkEqual(path: string, recorded: unknown, computed: readonly unknown[]): void {
  const difference = findDifference(recorded, computed);
  if (difference)
    throw new UserError(
      `${path}: ${describeDifference(difference, "the model", "the file")}. Evaluate the model again.`,
    );
}
