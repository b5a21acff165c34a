import { basename, extname, join } from "node:path";
import { z } from "zod";
import { getErrorMessage, UserError } from "../base/errors.js";
import { type Callbacks, reportProgress, type TemperEvent, warn } from "../base/events.js";
import { readJsonIfExists } from "../base/read-json.js";
import { countSchema, orNull, seedSchema, validate } from "../base/validate.js";
import { createMethods } from "../methods/index.js";
import {
  checkMaxLength,
  countModelParameters,
  loadMaskedLm,
  type MaskedLm,
  saveModel,
  toTrainableModel,
} from "../models/index.js";
import { compareEnvironments, environmentSchema } from "../runs/environment.js";
import { getRunPath } from "../runs/run-files.js";
import { RunWriter } from "../runs/run-writer.js";
import { checkSameConfig, formatMethodNames, runConfigSchema } from "../settings/config.js";
import { resolveLocalPath } from "../settings/read-config.js";
import { applyRuntime, type RuntimeConfig, runtimeOptions } from "../settings/runtime-config.js";
import type { Example, Task } from "../tasks/index.js";
import { free, Rng } from "../tensor/index.js";
import { maskTokens } from "../text/mask-tokens.js";
import { packTexts } from "../text/pack-sequences.js";
import { MAX_TEXT_LENGTH } from "../text/part-encoder.js";
import { readInputs } from "../text/read-inputs.js";
import {
  type Dataset,
  evaluatePerplexity,
  Interrupted,
  type TrainingJob,
  train,
  trainSettingsSchema,
} from "../train/index.js";
import { describeEnvironment } from "./train/prepare-run.js";
import { estimateDiskBytes } from "./train/train.js";

/** Continues the training of a masked language model on texts. */
export const pretrainRequestSchema = z.strictObject({
  model: z
    .string({ error: "expected a model (--model): a folder, npm:PACKAGE or a Hugging Face model ID" })
    .min(1)
    .describe("a masked language model or encoder: a folder, npm:PACKAGE or a Hugging Face model ID"),
  data: z
    .string({ error: "expected a file of texts (--data): one text per line, or .jsonl" })
    .describe("file of texts: one per line, or JSON lines"),
  validationData: orNull(z.string(), "a part of the data").describe("file of validation texts"),
  validationFraction: z
    .number()
    .min(0)
    .lt(1)
    .default(0.05)
    .describe("fraction of the texts that is held out for the validation; 0: no validation"),
  maxValidationSequences: countSchema.nullable().default(1000).describe("maximum sequences to validate on"),
  maxLength: countSchema.default(128).describe("tokens per sequence; texts are packed into sequences"),
  maskProbability: z.number().gt(0).max(0.9).default(0.15).describe("fraction of the tokens to predict"),
  wholeWordMasking: z.boolean().default(false).describe("mask all tokens of a word together"),
  methods: runConfigSchema.shape.methods.describe("method, innermost first: rose, child-tuning, mixout or ptwd"),
  train: trainSettingsSchema.prefault({}),
  seed: seedSchema.default(0).describe("random seed"),
  ...runtimeOptions,
  cudaGraphs: z.boolean().default(true).describe("on a GPU, capture optimizer steps as CUDA graphs"),
});

/**
 * The settings of a pre-training. Only `model` and `data` are required.
 *
 * @example
 * const request: PretrainRequest = { model: "bert-base-uncased", data: "texts.txt" };
 */
export type PretrainRequest = z.input<typeof pretrainRequestSchema> & {
  /** Its folder. Default: runs/pretrain-DATA-METHOD-seedN. */
  readonly out?: string | undefined;
  /** Continue the pre-training in the folder. A finished one is only read. */
  readonly resume?: boolean | undefined;
};
type Config = z.output<typeof pretrainRequestSchema>;

const metricsSchema = z.record(z.string(), z.number());
const resultsSchema = z.object({
  format: z.literal(1),
  model: z.string(),
  methods: z.array(z.object({ name: z.string(), options: z.record(z.string(), z.unknown()) })),
  seed: z.number(),
  steps: z.number(),
  bestStep: z.number(),
  sequences: z.number(),
  /** The validation metrics before and after; null without a validation. */
  before: metricsSchema.nullable(),
  validation: metricsSchema.nullable(),
});

/**
 * The results of a pre-training.
 *
 * @example
 * const { folder, validation } = await pretrain({ model: "bert-base-uncased", data: "texts.txt" });
 */
export interface PretrainResults extends z.output<typeof resultsSchema> {
  /** The folder of the model, for `temper train --model` and transformers. */
  readonly folder: string;
}

/** The folder of a pre-training if none is named. */
export function getDefaultPretrainFolder(request: Pick<Config, "data" | "methods" | "seed">): string {
  const data = basename(request.data, extname(request.data)).replace(/[^\w.-]+/g, "-");
  return join("runs", `pretrain-${data}-${formatMethodNames(request)}-seed${request.seed}`);
}

/** Checks the settings of a pre-training and fills in the defaults. */
export function resolvePretrainRequest(request: unknown): Config {
  const config = validate(pretrainRequestSchema, request, "pretrain");
  const { train: settings, data, validationData } = config;
  if (settings.batchSampler !== "shuffled")
    throw new UserError(`train.batchSampler: expected shuffled, because texts have no classes`);
  const unsupported = config.methods.find(({ name }) => !supportedMethods.includes(name));
  if (unsupported)
    throw new UserError(
      `methods: ${unsupported.name} does not work with a masked language model. Use ${supportedMethods.join(", ")}.`,
    );
  const metricForBestModel = settings.metricForBestModel === "accuracy" ? "perplexity" : settings.metricForBestModel;
  return {
    ...config,
    model: resolveLocalPath(config.model),
    data: resolveLocalPath(data),
    validationData: resolveLocalPath(validationData),
    train: { ...settings, metricForBestModel },
  };
}

const supportedMethods: readonly string[] = ["standard", "rose", "child-tuning", "mixout", "ptwd"];

/** Reads the settings of a pre-training that was started in a folder. */
export async function readPretrainConfig(folder: string): Promise<Config | null> {
  return readJsonIfExists(getRunPath(folder, "pretraining"), pretrainRequestSchema, "the settings of the pre-training");
}

/**
 * Continues masked-language-model training on texts. The model is saved for `temper train` and
 * transformers.
 *
 *     const { folder, validation } = await pretrain({ model: "roberta-base", data: "texts.txt" });
 */
export async function pretrain(request: PretrainRequest, callbacks: Callbacks = {}): Promise<PretrainResults> {
  const { out: folder, resume = false, ...settings } = request;
  const config = resolvePretrainRequest(settings);
  const out = folder ?? getDefaultPretrainFolder(config);
  const writer = new RunWriter(out, resume);
  try {
    const before = resume ? await readPretrainConfig(out) : null;
    if (before) checkSameConfig(out, before, config);
    const finished = before && (await readResults(out));
    if (finished) return finished;
    const prepared = await preparePretraining(config, callbacks).catch((error: unknown) => {
      if (writer.wasEmpty) writer.removeAll();
      throw error;
    });
    try {
      await trainPrepared(prepared, writer, before !== null, callbacks);
    } finally {
      free(prepared.job.model.weights);
    }
    return (await readResults(out))!;
  } finally {
    writer.release();
  }
}

async function readResults(folder: string): Promise<PretrainResults | null> {
  const path = getRunPath(folder, "pretrainingResults");
  const results = await readJsonIfExists(path, resultsSchema, "the results of the pre-training");
  return results && { ...results, folder: getRunPath(folder, "model") };
}

interface PreparedPretraining {
  readonly config: Config;
  readonly runtime: RuntimeConfig;
  readonly texts: PretrainingTexts;
  readonly job: Omit<TrainingJob, "files" | "resume">;
}

/** Loads texts, model and methods. Nothing is written. */
async function preparePretraining(config: Config, callbacks: Callbacks): Promise<PreparedPretraining> {
  const methods = createMethods(config.methods);
  const requiresFloat32 = methods.some(({ traits }) => traits?.requiresFloat32);
  const runtime = applyRuntime(config, { use: "training", requiresFloat32 });
  const texts = await readPretrainingTexts(config);
  const { seed, wholeWordMasking, maskProbability, cudaGraphs } = config;
  const maskedLm = await loadMaskedLm(config.model, { device: runtime.device, seed, allowNewHead: true });
  try {
    if (maskedLm.newlyInitialized.length > 0)
      warn(
        callbacks,
        `${config.model} has no complete head of a masked language model: ` +
          `${maskedLm.newlyInitialized.join(", ")} are new.`,
      );
    const maxLength = Math.min(config.maxLength, maskedLm.maxLength);
    if (maxLength < config.maxLength)
      warn(callbacks, `The model reads at most ${maxLength} tokens. maxLength ${config.maxLength} is reduced to that.`);
    const model = toTrainableModel(maskedLm, maxLength);
    checkMaxLength(model, 1);
    const sequences = { maxLength, maskProbability, wholeWordMasking };
    const rng = new Rng(seed);
    const train = createMaskedDataset(maskedLm, texts.train, sequences, (epoch, i) => rng.fork("mask", epoch, i));
    // Every seed validates with the same masks.
    const fixed = new Rng(0);
    const validation =
      texts.validation &&
      createMaskedDataset(
        ...([maskedLm, texts.validation, sequences] as const),
        (_, i) => fixed.fork("validation mask", i),
        config.maxValidationSequences,
      );
    const job = { model, task: textTask, settings: config.train, methods, train, validation, seed, cudaGraphs };
    return { config, runtime, texts, job: { ...job, deviceConfig: runtime } };
  } catch (error) {
    free(maskedLm.weights);
    throw error;
  }
}

/** Texts without labels. */
const textTask: Task = {
  name: "texts",
  labels: [],
  fields: ["text"],
  modifiableFields: [],
  metrics: ["perplexity"],
  splits: ["train", "validation"],
  sourceNames: {},
  load: async () => [],
};

async function trainPrepared(
  { config, runtime, texts, job }: PreparedPretraining,
  writer: RunWriter,
  isResumed: boolean,
  callbacks: Callbacks,
): Promise<void> {
  const { model, validation } = job;
  const { signal } = callbacks;
  writer.checkDiskSpace(estimateDiskBytes(countModelParameters(model.architecture), config.train, isResumed));
  const environment = await describeEnvironment({ job, runtime, examples: texts }, null, null);
  const environmentPath = writer.path("environment");
  const earlier = isResumed && (await readJsonIfExists(environmentPath, environmentSchema, "the environment"));
  if (earlier) compareEnvironments(writer.folder, earlier, environment, (message) => warn(callbacks, message));
  await writer.writeEnvironment(environment);
  await writer.writePretraining("pretraining", config);
  let steps = 0;
  const onEvent = (event: TemperEvent): void => {
    if (event.type === "start") {
      steps = event.totalSteps;
      writer.writeStatus({ steps, failure: null });
    }
    callbacks.onEvent?.(event);
  };
  try {
    const before =
      validation &&
      (await evaluatePerplexity(model, validation, runtime, (done) => {
        if (signal?.aborted) throw new Interrupted("Stopped before the first step.");
        reportProgress(callbacks, "perplexity before", done, validation.items.length);
      }));
    const outcome = await train({
      ...job,
      onEvent,
      signal,
      files: {
        events: writer.path("events"),
        timings: writer.path("timings"),
        checkpoints: writer.path("checkpoints"),
        adapter: writer.path("adapter"),
      },
      resume: isResumed,
    });
    await saveModel(writer.path("model"), model);
    const results: z.output<typeof resultsSchema> = {
      format: 1,
      model: config.model,
      methods: config.methods.map(({ name, options }) => ({ name, options: { ...options } })),
      seed: config.seed,
      steps: outcome.steps,
      bestStep: outcome.bestStep,
      sequences: job.train.items.length,
      before,
      validation: outcome.validation && { ...outcome.validation },
    };
    await writer.writePretraining("pretrainingResults", results);
    await writer.removeUnneeded(config.train);
  } catch (error) {
    if (steps === 0 && error instanceof UserError && writer.wasEmpty) writer.removeAll();
    else if (!(error instanceof Interrupted)) writer.tryWriteStatus({ steps, failure: getErrorMessage(error) });
    throw error;
  }
}

/** Texts for pre-training, one example each. */
interface PretrainingTexts {
  readonly train: readonly Example[];
  readonly validation: readonly Example[] | null;
}

/**
 * Reads the texts. Without a file for the validation, a fraction of the texts is held out; the same
 * ones for every seed.
 */
async function readPretrainingTexts(source: {
  readonly data: string;
  readonly validationData: string | null;
  readonly validationFraction: number;
}): Promise<PretrainingTexts> {
  const { data, validationData, validationFraction } = source;
  const all = await readTexts(data);
  if (validationData !== null) return { train: all, validation: await readTexts(validationData) };
  if (validationFraction === 0) return { train: all, validation: null };
  if (all.length < 2)
    throw new UserError(
      `${data}: expected at least 2 texts, to hold one out for the validation, received ${all.length}. ` +
        "Write one text per line, pass --validation-data, or set --validation-fraction 0.",
    );
  const count = Math.min(all.length - 1, Math.max(1, Math.round(validationFraction * all.length)));
  const order = new Rng(0).fork("validation texts").shuffle(Int32Array.from(all.keys()));
  const heldOut = new Set(order.subarray(0, count));
  return {
    train: all.filter((_, i) => !heldOut.has(i)),
    validation: all.filter((_, i) => heldOut.has(i)),
  };
}

/** Reads one text per line, or JSON lines. Blank lines are left out, long texts are split. */
async function readTexts(path: string): Promise<Example[]> {
  if (/\.(csv|tsv|parquet)$/i.test(path))
    throw new UserError(
      `${path}: expected one text per line, or JSON lines such as {"text": "…"}, received a table. ` +
        "Write its texts into a .txt or .jsonl file.",
    );
  const examples: Example[] = [];
  for await (const { line, texts } of readInputs(path))
    for (const text of texts)
      for (let start = 0; start < text.length; start += MAX_TEXT_LENGTH) {
        const part = text.slice(start, start + MAX_TEXT_LENGTH);
        if (part.trim() !== "") examples.push({ id: `${line}`, texts: [part], label: 0 });
      }
  return examples;
}

/**
 * Packs texts into sequences. `createStream` returns the random numbers of a sequence in an epoch.
 */
export function createMaskedDataset(
  { tokenizer, maskId }: Pick<MaskedLm, "tokenizer" | "maskId">,
  texts: readonly Example[],
  {
    maxLength,
    maskProbability,
    wholeWordMasking,
  }: { readonly maxLength: number; readonly maskProbability: number; readonly wholeWordMasking: boolean },
  createStream: (epoch: number, index: number) => Rng,
  maxSequences: number | null = null,
): Dataset {
  const packed = packTexts(
    tokenizer,
    texts.map((example) => example.texts[0]!),
    maxLength,
    wholeWordMasking,
  );
  const sequences = packed.slice(0, maxSequences ?? packed.length);
  const maxTokens = maxLength - tokenizer.encode([""], maxLength).ids.length;
  const masking = { probability: maskProbability, maxTokens, maskId };
  return {
    items: sequences.map((encoding, i) => ({ example: { id: `sequence ${i}`, texts: [], label: 0 }, encoding })),
    lengths: Int32Array.from(sequences, ({ ids }) => ids.length),
    truncatedCount: 0,
    maxLength,
    mask: (index, epoch) => maskTokens(sequences[index]!, tokenizer, masking, createStream(epoch, index)),
  };
}
