import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../base/events.js";
import { countSchema, orNull, seedSchema, validate } from "../base/validate.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { checkLabels, checkMaxLength, type DeviceConfig, type Model, predictProbabilities } from "../models/index.js";
import { createModelPredictor, type EncodedText, type Predictor } from "../models/inference/predictor.js";
import type { CertifiedModel } from "../proofs/certificates/index.js";
import { listResultWarnings } from "../runs/result-warnings.js";
import type { AdvglueResult, EvaluationResult } from "../runs/results.js";
import { RunFolder } from "../runs/run-folder.js";
import { dataOptions, dataSchema, flattenData } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { advglueParts } from "../tasks/advglue.js";
import { type Example, formatSplit, loadTask, type Split, type Task } from "../tasks/index.js";
import { drawRandomly } from "../tasks/sample.js";
import { readBenign } from "./calibrate.js";
import { loadRequestedTask } from "./load/load-task.js";
import { type AnswerUse, summarizeAnswers } from "./measure/clean.js";
import { guardOptions, wrapUse } from "./predict/certified-model.js";
import { loadClassifier, type TextClassifier } from "./predict/text-classifier.js";

export const evaluateRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  ...dataOptions,
  split: z.enum(["train", "validation", "test"]).default("test").describe("dataset split to use"),
  maxSamples: orNull(countSchema, "all examples").describe("evaluate on a random sample"),
  seed: seedSchema.default(0).describe("random seed of --max-samples"),
  threshold: orNull(z.number().min(0).max(1), "the more probable label").describe(
    "predict the positive one of two labels if its probability is at least this",
  ),
  benign: z
    .record(z.string(), dataSchema)
    .default({})
    .describe("further benign texts by name, such as texts full of trigger words: NAME=FILE"),
  slices: orNull(z.string()).describe("column whose values divide the texts, such as the category of an attack"),
  ...guardOptions,
  ...runtimeOptions,
});

/**
 * An evaluation as data: the model, the data and the split.
 *
 *     const request: EvaluateRequest = { model: "runs/rose", split: "validation" };
 */
export type EvaluateRequest = z.input<typeof evaluateRequestSchema>;
type ParsedEvaluateRequest = z.output<typeof evaluateRequestSchema>;

/**
 * Evaluates a model on a split of a task.
 *
 *     const { accuracy, interval } = await evaluate({ model: "runs/rose", task: "sst2" });
 */
export async function evaluate(request: EvaluateRequest, callbacks: Callbacks = {}): Promise<EvaluationResult> {
  const parsed = validate(evaluateRequestSchema, request, "evaluate");
  await using classifier = await loadEvaluatedModel(parsed, callbacks);
  const { model } = classifier;
  const task = await loadRequestedTask(parsed, model, await RunFolder.containing(model.folder), callbacks);
  // Without await, the model would be freed before it is evaluated.
  return await evaluateSplit(classifier, task, parsed, callbacks);
}

/**
 * Evaluates a model that was trained on a GLUE task on that task and on its adversarial counterpart
 * in AdvGLUE.
 *
 *     const { glue, advglue, drop } = await evaluateAdvglue({ model: "runs/sst2-rose-seed0" });
 */
export async function evaluateAdvglue(
  request: Omit<EvaluateRequest, "task" | "split">,
  callbacks: Callbacks = {},
): Promise<AdvglueResult> {
  const parsed: ParsedEvaluateRequest = { ...validate(evaluateRequestSchema, request, "evaluate"), split: "test" };
  await using classifier = await loadEvaluatedModel(parsed, callbacks);
  const { glue: glueTask, advglue: advglueTask } = await loadAdvglueTasks(
    classifier.model,
    flattenData(parsed).data,
    callbacks,
  );
  const glue = await evaluateSplit(classifier, glueTask, parsed, callbacks);
  const advglue = await evaluateSplit(classifier, advglueTask, parsed, callbacks);
  return { task: "advglue", part: glueTask.name, drop: glue.accuracy - advglue.accuracy, glue, advglue };
}

export async function loadAdvglueTasks(
  { task: trained }: Pick<Model, "task">,
  data: ReturnType<typeof flattenData>["data"],
  { onEvent }: Callbacks,
): Promise<Record<"glue" | "advglue", Task>> {
  const part = advglueParts.find((name) => name === trained);
  if (part === undefined)
    throw new UserError(
      `advglue: expected a model trained on one of ${advglueParts.join(", ")}, received one ` +
        `${trained ? `trained on ${trained}` : "of an unknown task"}. Name a part: --task advglue:sst2.`,
    );
  // A file can only be AdvGLUE's; GLUE is then searched in the default folders.
  const load = (task: string, from: typeof data): Promise<Task> =>
    loadTask({ task, ...(from !== null && { data: from }), onEvent });
  return {
    glue: await load(part, typeof data === "string" && data.endsWith(".json") ? null : data),
    advglue: await load(`advglue:${part}`, data),
  };
}

function loadEvaluatedModel(request: ParsedEvaluateRequest, { onEvent }: Callbacks): Promise<TextClassifier> {
  const { model, device, precision, threads, windows, positiveLabel } = request;
  return loadClassifier(model, { device, precision, threads, windows, positiveLabel, onEvent });
}

async function evaluateSplit(
  classifier: TextClassifier,
  task: Task,
  { split, maxSamples, seed, threshold, positiveLabel, benign, textColumn }: ParsedEvaluateRequest,
  callbacks: Callbacks,
): Promise<EvaluationResult> {
  const {
    model,
    runtime,
    use: { certified, guard },
  } = classifier;
  checkLabels(model.reference, model.labels, task.labels, task.name);
  const all = await task.load(split);
  // A class-balanced sample would have another accuracy than the texts that it is drawn from.
  const examples = maxSamples === null || maxSamples >= all.length ? all : drawRandomly(all, maxSamples, seed);
  const result = await evaluateExamples(model, task, examples, split, runtime, {
    onProgress: (done, total) => reportProgress(callbacks, "evaluate", done, total),
    certified,
    threshold,
    positiveLabel,
    guard,
  });
  for (const [name, data] of Object.entries(benign)) {
    // The columns are those of the split, if the benign texts are a table.
    const texts = await readBenign({ benign: data, textColumn: [] }, textColumn);
    result.benign.push(await evaluateBenign(classifier, name, texts, result));
  }
  for (const warning of listResultWarnings(result)) warn(callbacks, warning);
  return result;
}

export async function evaluateExamples(
  model: Model,
  task: Pick<Task, "name" | "sourceNames" | "labels">,
  examples: readonly Example[],
  split: Split,
  deviceConfig: DeviceConfig,
  {
    onProgress,
    certified = null,
    guard = null,
    threshold = null,
    positiveLabel = null,
  }: AnswerUse & {
    /** The numbers of texts, or of their parts that a certified model classifies. */
    readonly onProgress?: (done: number, total: number) => void;
    /** The certified model that answers; null if complete texts are classified. */
    readonly certified?: CertifiedModel | null;
  } = {},
): Promise<EvaluationResult> {
  if (threshold !== null && model.labels.length !== 2)
    throw new UserError(
      `evaluate: threshold: expected a model with two labels, received ${model.labels.length} labels ` +
        `(${model.labels.join(", ")}). Leave the threshold out.`,
    );
  if (examples.length === 0) throw new UserError(`${formatSplit(task, split)} is empty.`);
  checkMaxLength(model, examples[0]!.texts.length);
  const predictor = wrapUse(createOncePredictor(model, deviceConfig, onProgress), { certified, guard });
  const answers = await predictor.predict(predictor.prepare(examples.map(({ texts }) => texts)));
  const use = { threshold, positiveLabel, guard };
  return summarizeAnswers({ name: task.name, split, labels: model.labels }, examples, answers, use);
}

/** The predictor of a model that is asked once, so that it is prepared for this number of texts. */
function createOncePredictor(
  model: Model,
  deviceConfig: DeviceConfig,
  onProgress?: (done: number, total: number) => void,
): Predictor {
  const { name, numLabels, prepare } = createModelPredictor(model, deviceConfig);
  return {
    name,
    numLabels,
    callLimits: { maxTexts: Number.POSITIVE_INFINITY },
    prepare,
    async predict(items: readonly EncodedText[]) {
      const encodings = items.map(({ encoding }) => encoding);
      const onBatch = (done: number): void => onProgress?.(done, items.length);
      const rows = await predictProbabilities(model, model.weights, encodings, deviceConfig, onBatch);
      return rows.map((probabilities) => ({ probabilities }));
    },
  };
}

async function evaluateBenign(
  classifier: TextClassifier,
  name: string,
  texts: readonly Example[],
  { operatingPoints, positiveLabel }: EvaluationResult,
): Promise<EvaluationResult["benign"][number]> {
  if (!operatingPoints || positiveLabel === null)
    throw new UserError(
      `benign: ${name}: expected a label to flag and a split with texts of it and others. Name it as positiveLabel.`,
    );
  if (texts.length === 0) throw new UserError(`benign: ${name}: expected texts, received none.`);
  const predictions = await classifier.classify(texts.map((each) => each.texts as [string, string]));
  const counts = Object.entries(operatingPoints.pointAtFpr).map(([rate, { threshold }]): [string, number] => [
    rate,
    predictions.filter(({ probabilities }) => threshold !== null && probabilities[positiveLabel]! >= threshold).length,
  ]);
  return {
    name,
    examples: texts.length,
    falsePositiveRates: Object.fromEntries(counts.map(([rate, count]) => [rate, count / texts.length])),
    intervals: Object.fromEntries(counts.map(([rate, count]) => [rate, wilsonInterval(count, texts.length)])),
  };
}
