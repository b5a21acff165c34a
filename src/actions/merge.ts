import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { checkNewFolder, createFolderAtomic, writeFileAtomic } from "../base/files.js";
import { countSchema, orNull, seedSchema, validate } from "../base/validate.js";
import { isHeadParameter, loadModel, type Model, saveModel } from "../models/index.js";
import { addToMean, interpolateWeights } from "../models/mix-weights.js";
import { mapWeights, type Weights } from "../nn/index.js";
import type { EvaluationResult } from "../runs/results.js";
import { RunFolder } from "../runs/run-folder.js";
import { dataOptions } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { free, keep, noGrad, scope, type Tensor } from "../tensor/index.js";
import { Interrupted } from "../train/index.js";
import { evaluateExamples } from "./evaluate.js";
import { limitExamples, loadRequestedTask } from "./load/load-task.js";
import { loadClassifier, type TextClassifier } from "./predict/text-classifier.js";

export const mergeRequestSchema = z.strictObject({
  models: z.array(z.string()).min(1).describe("run folders or model folders"),
  mode: z
    .enum(["wise-ft", "uniform", "greedy"])
    .describe(
      "wise-ft: one model and its pre-trained weights; uniform: the mean of all models; greedy: the mean of those " +
        "that do not lower the accuracy",
    ),
  out: z.string().describe("a new folder for the merged model"),
  alpha: z.number().min(0).max(1).default(0.5).describe("wise-ft: weight of the fine-tuned model"),
  pretrained: orNull(z.string(), "the one that the run started from").describe("wise-ft: the pre-trained model"),
  ...dataOptions,
  split: z.enum(["train", "validation", "test"]).default("validation").describe("greedy: split for the accuracy"),
  maxSamples: orNull(countSchema, "all examples").describe("greedy: a class-balanced sample of the split"),
  seed: seedSchema.default(0).describe("random seed of --max-samples"),
  ...runtimeOptions,
});

/**
 * A merge as data: the models, and how their weights are averaged.
 *
 *     const request: MergeRequest = { models: ["runs/a", "runs/b"], mode: "uniform", out: "soup" };
 */
export type MergeRequest = z.input<typeof mergeRequestSchema>;
type ParsedMergeRequest = z.output<typeof mergeRequestSchema>;

/**
 * A merged model on disk. It is also in the file merge.json of its folder.
 *
 *     const { folder, models }: MergeReport = await merge(request);
 */
export interface MergeReport {
  readonly folder: string;
  readonly mode: ParsedMergeRequest["mode"];
  /** The weight of each model in the result, and its own accuracy if it was measured. */
  readonly models: readonly {
    readonly model: string;
    readonly weight: number;
    readonly accuracy: number | null;
    /** The reason why it is degenerate, so that it is not used; null if it is not, or if it was not measured. */
    readonly degeneracy: string | null;
  }[];
  /** The split, and the accuracy of the merged model on it; null if it was not measured. */
  readonly split: string | null;
  readonly accuracy: number | null;
}

/** The result of a mode: new weights, and the part of the report that depends on it. */
interface Merged extends Pick<MergeReport, "models" | "split" | "accuracy"> {
  readonly weights: Weights;
}

/** A merge in progress. The first model also gives the settings of the result. */
interface MergeContext {
  readonly request: ParsedMergeRequest;
  readonly first: TextClassifier;
  readonly callbacks: Callbacks;
  load(reference: string): Promise<TextClassifier>;
}

const reportFile = "merge.json";

/**
 * Averages the weights of models and writes the result as a model folder, which every action
 * accepts. `wise-ft` mixes a fine-tuned model with its pre-trained weights (WiSE-FT), `uniform` and
 * `greedy` are model soups.
 *
 *     await merge({ models: ["runs/rose"], mode: "wise-ft", alpha: 0.7, out: "merged" });
 *     const { accuracy } = await evaluate({ model: "merged" });
 */
export async function merge(request: MergeRequest, callbacks: Callbacks = {}): Promise<MergeReport> {
  const parsed = validate(mergeRequestSchema, request, "merge");
  const { mode, models, out, device, precision, threads } = parsed;
  checkModelCount(parsed);
  await checkNewFolder(out);
  const load = (reference: string): Promise<TextClassifier> => {
    if (callbacks.signal?.aborted) throw new Interrupted("Stopped. Nothing was written.");
    return loadClassifier(reference, { device, precision, threads, onEvent: callbacks.onEvent });
  };
  await using first = await load(models[0]!);
  const run = { "wise-ft": mixWithPretrained, uniform: mixUniformly, greedy: mixGreedily }[mode];
  const { weights, ...rest } = await run({ request: parsed, first, callbacks, load });
  try {
    await createFolderAtomic(out, async (folder) => {
      await writeFileAtomic(join(folder, reportFile), `${JSON.stringify({ mode, ...rest }, null, 2)}\n`);
      await saveModel(folder, first.model, weights);
    });
    return { folder: out, mode, ...rest };
  } finally {
    free(weights);
  }
}

function checkModelCount({ mode, models }: ParsedMergeRequest): void {
  if (mode === "wise-ft" && models.length !== 1)
    throw new UserError(`merge: wise-ft expected one model, received ${models.length}. Use uniform or greedy.`);
  if (mode !== "wise-ft" && models.length < 2)
    throw new UserError(`merge: ${mode} expected at least two models, received 1. Name more, or use wise-ft.`);
}

const cloneWeights = (weights: Weights): Map<string, Tensor> =>
  noGrad(() => scope(() => keep(mapWeights(weights, (tensor) => tensor.detach().clone()))));

/** Rejects models that are different functions of their weights: a mean then means nothing. */
function checkSameNetwork(one: Model, other: Model): void {
  const [ours, theirs] = [one, other].map(describeNetwork) as [Record<string, unknown>, Record<string, unknown>];
  for (const [key, value] of Object.entries(ours))
    if (value !== theirs[key])
      throw new UserError(
        `${one.reference} and ${other.reference} differ in ${key} (${value} and ${theirs[key]}), so a mean of their ` +
          "weights is no model. Use models with the same settings.",
      );
}

function describeNetwork({ architecture, tokenization, labels, tokenizer }: Model): Record<string, unknown> {
  const { config, head, pooling } = architecture;
  const { modelType, hiddenSize, numHiddenLayers, numAttentionHeads, intermediateSize, activation } = config;
  const encoder = { modelType, hiddenSize, numHiddenLayers, numAttentionHeads, intermediateSize, activation };
  return { ...encoder, head, pooling, tokenization, tokenizer: tokenizer.hash, labels: labels.join(", ") };
}

/**
 * WiSE-FT: (1 - alpha) pre-trained + alpha fine-tuned. Parameters that were not pre-trained, such as
 * the head, stay those of the fine-tuned model.
 */
async function mixWithPretrained({ request, first, callbacks }: MergeContext): Promise<Merged> {
  const { model, runtime } = first;
  const { alpha } = request;
  const reference = request.pretrained ?? (await RunFolder.containing(model.folder))?.config.model;
  if (reference === undefined)
    throw new UserError(
      `merge: ${model.reference} is no run, so its pre-trained model is not known. Name it with --pretrained.`,
    );
  const { labels, tokenization, maxLength, architecture } = model;
  const { head, pooling } = architecture;
  const { device } = runtime;
  const pretrained = await loadModel(reference, {
    labels,
    tokenization,
    maxLength,
    pooling,
    device,
    ...(head !== "masked-lm" && { head }),
    onEvent: callbacks.onEvent,
  });
  try {
    checkSameNetwork(model, pretrained);
    const isMixed = (name: string): boolean => !isHeadParameter(name) && !pretrained.newlyInitialized.includes(name);
    const shared = new Map([...pretrained.weights].filter(([name]) => isMixed(name)));
    const weights = scope(() =>
      cloneWeights(new Map([...model.weights, ...interpolateWeights(shared, model.weights, alpha)])),
    );
    const listed = [
      { model: reference, weight: 1 - alpha, accuracy: null, degeneracy: null },
      { model: request.models[0]!, weight: alpha, accuracy: null, degeneracy: null },
    ];
    return { weights, models: listed, split: null, accuracy: null };
  } finally {
    free(pretrained.weights);
  }
}

/** A uniform soup: the mean of all models. */
async function mixUniformly({ request: { models }, first, load }: MergeContext): Promise<Merged> {
  let weights: Weights = cloneWeights(first.model.weights);
  for (const [i, reference] of models.entries()) {
    if (i === 0) continue;
    await using next = await load(reference);
    checkSameNetwork(first.model, next.model);
    const before = weights;
    weights = addToMean(before, i, next.model.weights);
    free(before);
  }
  const listed = models.map((model) => ({ model, weight: 1 / models.length, accuracy: null, degeneracy: null }));
  return { weights, models: listed, split: null, accuracy: null };
}

/**
 * A greedy soup: from the most to the least accurate model, each is added if the accuracy of the
 * mean does not fall. Degenerate models are left out.
 */
async function mixGreedily({ request, first, callbacks, load }: MergeContext): Promise<Merged> {
  const { models, split, maxSamples, seed } = request;
  const run = await RunFolder.containing(first.model.folder);
  const task = await loadRequestedTask(request, first.model, run, callbacks);
  const examples = limitExamples(task, await task.load(split), maxSamples, seed);
  let evaluations = 0;
  const measure = async (weights: Weights): Promise<Pick<EvaluationResult, "accuracy" | "degeneracy">> => {
    const { accuracy, degeneracy } = await evaluateExamples(
      { ...first.model, weights },
      task,
      examples,
      split,
      first.runtime,
    );
    // Every model is measured alone, and all but the best one as a part of the mean.
    reportProgress(callbacks, "merge", ++evaluations, 2 * models.length - 1, "evaluations");
    return { accuracy, degeneracy };
  };
  const measured: { model: string; accuracy: number; degeneracy: string | null }[] = [];
  for (const model of models) {
    await using next = await load(model);
    checkSameNetwork(first.model, next.model);
    measured.push({ model, ...(await measure(next.model.weights)) });
  }
  const sound = measured.filter(({ degeneracy }) => degeneracy === null);
  const [best, ...others] = sound.toSorted((a, b) => b.accuracy - a.accuracy);
  if (best === undefined)
    throw new UserError(
      `merge: all ${models.length} models are degenerate (${models[0]}: ${measured[0]!.degeneracy}). Use models that ` +
        "have learned the task.",
    );
  const chosen = [best.model];
  let { accuracy } = best;
  let weights = await load(best.model).then(async (classifier) => {
    await using loaded = classifier;
    return cloneWeights(loaded.model.weights);
  });
  for (const { model } of others) {
    await using next = await load(model);
    const candidate = addToMean(weights, chosen.length, next.model.weights);
    const mixed = await measure(candidate);
    if (mixed.degeneracy !== null || mixed.accuracy < accuracy) {
      free(candidate);
      continue;
    }
    free(weights);
    weights = candidate;
    accuracy = mixed.accuracy;
    chosen.push(model);
  }
  const getWeight = (model: string): number => (chosen.includes(model) ? 1 / chosen.length : 0);
  return { weights, models: measured.map((each) => ({ ...each, weight: getWeight(each.model) })), split, accuracy };
}
