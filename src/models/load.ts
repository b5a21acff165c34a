import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { areFinite } from "../nn/index.js";
import {
  type Device,
  type DType,
  fromBytes,
  keep,
  noGrad,
  normal_,
  Rng,
  scope,
  seedGenerator,
  type Tensor,
  uniform_,
  zeros,
} from "../tensor/index.js";
import type { Tokenization } from "../text/encoding.js";
import { loadTokenizer } from "../text/tokenizer.js";
import { openCheckpoint } from "./checkpoint.js";
import { readModelConfig, readTemperMetadata } from "./config.js";
import type { DownloadProgress } from "./download.js";
import { getEncoderParameterShapes } from "./encoder.js";
import type { EncoderConfig, PoolingMode } from "./families/family.js";
import { getFamily, isHeadParameter, isPoolerParameter } from "./families/index.js";
import { type HeadName, mlpHeadPrefix } from "./heads.js";
import { type Architecture, getParameterShapes, type Model } from "./model.js";
import { checkMaxLength } from "./model-input.js";
import { resolveModel } from "./resolve-model.js";
import { openSafetensors, type SafetensorsFile } from "./safetensors.js";
import type { SafetensorsDType } from "./safetensors-header.js";

/** Options of `loadModel`. */
export interface LoadModelOptions {
  /**
   * The labels of the task. A checkpoint with a trained head must have the same. Default: the
   * checkpoint's.
   */
  labels?: readonly string[];
  task?: string;
  head?: HeadName;
  pooling?: PoolingMode;
  tokenization?: Tokenization;
  maxLength?: number;
  device?: Device;
  /** The random seed for parameters that are not in the checkpoint. */
  seed?: number;
  /** How a new head is initialized. */
  headInit?: HeadInit;
  /** Called during a download from the hub. */
  onProgress?: (progress: DownloadProgress) => void;
}

/**
 * The initial weights of a head: normal with zero biases, as in transformers, or uniform in
 * +-1/sqrt(inputs), as PyTorch's linear layers and RIFT's released code.
 */
export type HeadInit = "normal" | "uniform";

const supportedDTypes: Partial<Record<SafetensorsDType, DType>> = {
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  F64: "float64",
};

/**
 * Loads a model: a folder, npm:PACKAGE or a Hugging Face model ID. The settings it was trained with
 * take precedence over the options.
 *
 * @example
 * const model = await loadModel("roberta-base", { labels: ["negative", "positive"] });
 */
export async function loadModel(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const { folder } = await resolveModel(reference, { onProgress: options.onProgress });
  const config = await readModelConfig(folder);
  const metadata = readTemperMetadata(config, join(folder, "config.json"));
  const tokenizer = await loadTokenizer(folder);
  if (tokenizer.vocabSize > config.vocabSize)
    throw new UserError(
      `${reference}: the tokenizer has ${tokenizer.vocabSize} tokens, but vocab_size is ${config.vocabSize}. ` +
        "tokenizer.json and config.json do not belong together.",
    );
  const checkpoint = await openCheckpoint(folder);
  const headFile = join(folder, "head.safetensors");
  const files = existsSync(headFile) ? [checkpoint, await openSafetensors(headFile)] : [checkpoint];
  try {
    const names = mapCheckpointNames(config, files);
    const head = metadata?.head ?? options.head ?? "hf";
    const pooling = metadata?.pooling ?? options.pooling ?? "cls";
    if (pooling === "pooler" && getFamily(config).pooler === null)
      throw new UserError(`${reference}: a ${config.modelType} encoder has no pooler. Use pooling cls or mean.`);
    const isTrained = [...names.keys()].some((name) => name.startsWith(head === "mlp" ? mlpHeadPrefix : "classifier."));
    const modelLabels = metadata?.labels ?? config.labels;
    if (isTrained && options.labels) checkLabels(reference, modelLabels, options.labels, options.task);
    const labels = options.labels ?? modelLabels;
    const architecture: Architecture = { config, head, pooling, numLabels: labels.length };
    const maxLength = Math.min(options.maxLength ?? metadata?.maxLength ?? config.maxLength, config.maxLength);
    const tokenization = metadata?.tokenization ?? options.tokenization ?? "subword";
    checkMaxLength({ tokenizer, tokenization, maxLength }, 1);
    const { weights, newlyInitialized } = readWeights(architecture, names, options);
    return {
      architecture,
      weights,
      tokenizer,
      tokenization,
      maxLength,
      labels,
      task: metadata?.task ?? options.task ?? null,
      folder,
      reference,
      newlyInitialized,
    };
  } finally {
    for (const file of files) await file.close();
  }
}

/** Maps the names of a checkpoint with a head to the names in the files, with or without prefix. */
function mapCheckpointNames(
  config: EncoderConfig,
  files: readonly SafetensorsFile[],
): Map<string, { file: SafetensorsFile; stored: string }> {
  const { prefix, pooler } = getFamily(config);
  const expected = new Map([...getEncoderParameterShapes(config), ...(pooler?.getShapes(config) ?? [])]);
  const names = new Map<string, { file: SafetensorsFile; stored: string }>();
  for (const file of files) {
    for (const stored of file.entries.keys()) {
      // Early checkpoints call the weight and bias of a layer normalization gamma and beta.
      const modern = stored
        .replace(/LayerNorm\.gamma$/, "LayerNorm.weight")
        .replace(/LayerNorm\.beta$/, "LayerNorm.bias");
      const lacksPrefix = !modern.startsWith(prefix) && expected.has(prefix + modern);
      names.set(lacksPrefix ? prefix + modern : modern, { file, stored });
    }
  }
  return names;
}

/**
 * Throws if a trained head does not have these labels in this order. Generic labels (LABEL_0, …)
 * match any labels of the same number.
 */
export function checkLabels(
  reference: string,
  modelLabels: readonly string[],
  taskLabels: readonly string[],
  task?: string,
): void {
  const isMatch = (label: string, i: number): boolean => label.toLowerCase() === taskLabels[i]?.toLowerCase();
  const isGeneric = modelLabels.every((label) => /^LABEL_\d+$/.test(label));
  if (modelLabels.length === taskLabels.length && (isGeneric || modelLabels.every(isMatch))) return;
  throw new UserError(
    `The labels of ${reference} [${modelLabels.join(", ")}] and the task${task ? ` ${task}` : ""} ` +
      `[${taskLabels.join(", ")}] differ. Use a model trained on this task, or one without a classification head.`,
  );
}

function readWeights(
  architecture: Architecture,
  names: ReturnType<typeof mapCheckpointNames>,
  options: LoadModelOptions,
): { weights: Map<string, Tensor>; newlyInitialized: string[] } {
  const newlyInitialized: string[] = [];
  const rng = new Rng(options.seed ?? 0);
  const { modelType, initializerRange } = architecture.config;
  const shapes = getParameterShapes(architecture);
  const read = (name: string, shape: readonly number[]): Tensor => {
    const source = names.get(name);
    const isOptional = isHeadParameter(name) || isPoolerParameter(name);
    if (!source && !isOptional)
      throw new UserError(
        `The checkpoint lacks ${name} [${shape}], so it is not a complete ${modelType} encoder. ` +
          "Download it again, or use another model.",
      );
    if (!source) newlyInitialized.push(name);
    const tensor = source
      ? readTensor(source.file, source.stored, shape)
      : options.headInit === "uniform" && isHeadParameter(name)
        ? initUniform(name, shape, shapes.get(name.replace(/\.bias$/, ".weight"))![1]!, rng)
        : initParameter(name, shape, initializerRange, rng);
    return (options.device && options.device !== "cpu" ? tensor.toDevice(options.device) : tensor).requiresGrad_();
  };
  // Kept only after all are read. If one fails, the scope frees the others.
  const weights = scope(() => {
    const all = new Map<string, Tensor>();
    for (const [name, shape] of shapes) {
      const parameter = scope(() => read(name, shape));
      all.set(name, parameter);
    }
    return keep(all);
  });
  return { weights, newlyInitialized };
}

function readTensor(file: SafetensorsFile, name: string, expected: readonly number[]): Tensor {
  const entry = file.entries.get(name);
  if (!entry) throw new Error(`${file.path} has no tensor ${name}`);
  const stored = supportedDTypes[entry.dtype];
  if (!stored)
    throw new UserError(
      `${file.path}: tensor ${name} has dtype ${entry.dtype}; expected F32, F16 or BF16. ` +
        "Quantized checkpoints cannot be fine-tuned.",
    );
  if (entry.shape.length !== expected.length || entry.shape.some((size, i) => size !== expected[i]))
    throw new UserError(
      `${file.path}: tensor ${name} has shape [${entry.shape}], but config.json requires [${expected}]. ` +
        "These files do not belong together.",
    );
  const tensor = fromBytes(file.readSync(name), entry.shape, stored, "float32");
  if (!areFinite([tensor]))
    throw new UserError(
      `${file.path}: tensor ${name} contains NaN or infinity. The file is damaged, or its training diverged. ` +
        "Download it again, or use another checkpoint.",
    );
  return tensor;
}

/**
 * Initializes a parameter like transformers: normal weights, zero biases. Each parameter has a
 * separate random stream, so that adding one does not change the others.
 */
function initParameter(name: string, shape: readonly number[], std: number, rng: Rng): Tensor {
  const tensor = zeros(shape);
  if (name.endsWith(".bias")) return tensor;
  seedGenerator("cpu", rng.fork("initial", name).seed());
  noGrad(() => normal_(tensor, 0, std));
  return tensor;
}

/** Initializes a parameter of a linear layer like PyTorch: uniform in +-1/sqrt(inputs). */
function initUniform(name: string, shape: readonly number[], inputs: number, rng: Rng): Tensor {
  const tensor = zeros(shape);
  seedGenerator("cpu", rng.fork("initial", name).seed());
  const bound = 1 / Math.sqrt(inputs);
  noGrad(() => uniform_(tensor, -bound, bound));
  return tensor;
}
