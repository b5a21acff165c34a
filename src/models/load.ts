import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.js";
import {
  type DataType,
  type Device,
  fromBytes,
  keep,
  noGrad,
  normal_,
  Rng,
  scope,
  seedGenerator,
  type Tensor,
  zeros,
} from "../tensor/index.js";
import type { Tokenization } from "../text/encoding.js";
import { loadTokenizer } from "../text/tokenizer.js";
import { openCheckpoint } from "./checkpoint.js";
import { type EncoderConfig, readModelConfig, readTemperMetadata, type TemperMetadata } from "./config.js";
import type { DownloadProgress } from "./download.js";
import { getEncoderParameterShapes, getParameterPrefix } from "./encoder.js";
import { getHeadPrefix, type HeadName } from "./heads.js";
import { type Architecture, getParameterShapes, isHeadParameter, type Model, type PoolingMode } from "./model.js";
import { resolveModel } from "./resolve-model.js";
import { openSafetensors, type SafetensorsFile, type SafetensorsType } from "./safetensors.js";

export interface LoadModelOptions {
  /** The labels it shall have. A checkpoint with a head of its own must agree; where left out, the checkpoint's. */
  labels?: readonly string[];
  task?: string;
  head?: HeadName;
  pooling?: PoolingMode;
  tokenization?: Tokenization;
  maxLength?: number;
  device?: Device;
  /** Decides the values of parameters that the checkpoint lacks. */
  seed?: number;
  /** Told of a download from the hub. */
  onProgress?: (progress: DownloadProgress) => void;
}

const supportedDTypes: Partial<Record<SafetensorsType, DataType>> = {
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  F64: "float64",
};

/** Loads a model by reference: a folder, npm:PACKAGE or a hub name. What it was trained with decides how it reads text. */
export async function loadModel(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const { folder } = await resolveModel(reference, { onProgress: options.onProgress });
  const config = await readModelConfig(folder);
  const facts = readTemperMetadata(config, join(folder, "config.json"));
  const tokenizer = await loadTokenizer(folder);
  if (tokenizer.vocabSize > config.vocabSize) {
    throw new UserError(
      `${reference}: the tokenizer has ${tokenizer.vocabSize} tokens, but vocab_size in config.json is ${config.vocabSize}. The two files do not belong together.`,
    );
  }
  const checkpoint = await openCheckpoint(folder);
  const headFile = join(folder, "head.safetensors");
  const files = existsSync(headFile) ? [checkpoint, await openSafetensors(headFile)] : [checkpoint];
  try {
    const names = mapCheckpointNames(config, files);
    const head = facts?.head ?? options.head ?? "hf";
    const feature = facts?.pooling ?? options.pooling ?? "cls";
    if (feature === "pooler" && config.modelType !== "bert")
      throw new UserError(
        `${reference}: feature pooler: a ${config.modelType} encoder has no pooler; use token or mean`,
      );
    const trained = [...names.keys()].some((name) => name.startsWith(getHeadPrefix(head)));
    const labels = resolveLabels(reference, config, facts, trained, options);
    const shape: Architecture = { config, head, pooling: feature, numLabels: labels.length };
    const { weights, fresh } = readWeights(shape, names, options);
    const maxLength = Math.min(options.maxLength ?? facts?.maxLength ?? config.maxLength, config.maxLength);
    const encoding = facts?.tokenization ?? options.tokenization ?? "subword";
    return {
      architecture: shape,
      weights,
      tokenizer,
      tokenization: encoding,
      maxLength,
      labels,
      task: facts?.task ?? options.task ?? null,
      folder,
      reference,
      newlyInitialized: fresh,
    };
  } finally {
    for (const file of files) await file.close();
  }
}

/** Every tensor under the name it has in a checkpoint with a head, whichever form the file uses. */
function mapCheckpointNames(
  config: EncoderConfig,
  files: readonly SafetensorsFile[],
): Map<string, { file: SafetensorsFile; stored: string }> {
  const prefix = getParameterPrefix(config);
  const expected = getEncoderParameterShapes(config);
  const names = new Map<string, { file: SafetensorsFile; stored: string }>();
  for (const file of files) {
    for (const stored of file.entries.keys()) {
      // Checkpoints of the first years call the scale and shift of a normalisation gamma and beta.
      const modern = stored
        .replace(/LayerNorm\.gamma$/, "LayerNorm.weight")
        .replace(/LayerNorm\.beta$/, "LayerNorm.bias");
      const bare = !modern.startsWith(prefix) && (expected.has(prefix + modern) || modern.startsWith("pooler."));
      names.set(bare ? prefix + modern : modern, { file, stored });
    }
  }
  return names;
}

/** The labels, where checkpoint and task agree; where the head is new, the task's. */
function resolveLabels(
  reference: string,
  config: EncoderConfig,
  facts: TemperMetadata | null,
  trained: boolean,
  options: LoadModelOptions,
): readonly string[] {
  const own = facts?.labels ?? config.labels;
  const wanted = options.labels;
  if (!trained || !wanted) return wanted ?? own;
  checkLabels(reference, own, wanted, options.task);
  return wanted;
}

/** Refuses labels that a trained head does not have, or not in this order. Unnamed ones (LABEL_0, …) agree with any of their number. */
export function checkLabels(reference: string, own: readonly string[], wanted: readonly string[], task?: string): void {
  const named = own.some((label) => !/^LABEL_\d+$/.test(label));
  const same =
    own.length === wanted.length && own.every((label, i) => label.toLowerCase() === wanted[i]?.toLowerCase());
  if (same || (!named && own.length === wanted.length)) return;
  throw new UserError(
    `the labels of ${reference} and of the task${task ? ` ${task}` : ""} disagree: the model has [${own.join(", ")}], the task has [${wanted.join(", ")}]. ` +
      "Use a model trained on this task, or one without a classification head.",
  );
}

function readWeights(
  shape: Architecture,
  names: ReturnType<typeof mapCheckpointNames>,
  options: LoadModelOptions,
): { weights: Map<string, Tensor>; fresh: string[] } {
  const fresh: string[] = [];
  const rng = new Rng(options.seed ?? 0);
  const read = (name: string, size: readonly number[]): Tensor => {
    const place = names.get(name);
    const drawn = isHeadParameter(name) || name.includes(".pooler.");
    if (!place && !drawn)
      throw new UserError(
        `the checkpoint lacks ${name} [${size}]: it is not a whole ${shape.config.modelType} encoder. Get it again, or give another model.`,
      );
    if (!place) fresh.push(name);
    const tensor = place
      ? readTensor(place.file, place.stored, size)
      : initParameter(name, size, shape.config.initializerRange, rng);
    return (options.device && options.device !== "cpu" ? tensor.toDevice(options.device) : tensor).requiresGrad_();
  };
  // Kept only once all are there: where one is wrong, those before it go with the scope.
  const weights = scope(() => {
    const all = new Map<string, Tensor>();
    for (const [name, size] of getParameterShapes(shape))
      all.set(
        name,
        scope(() => read(name, size)),
      );
    return keep(all);
  });
  return { weights, fresh };
}

function readTensor(file: SafetensorsFile, name: string, expected: readonly number[]): Tensor {
  const entry = file.entries.get(name);
  if (!entry) throw new Error(`${name} vanished from ${file.path}`);
  const stored = supportedDTypes[entry.dtype];
  if (!stored)
    throw new UserError(
      `${file.path}: tensor ${name} holds ${entry.dtype}: expected F32, F16 or BF16 weights (quantised checkpoints cannot be fine-tuned)`,
    );
  if (entry.shape.length !== expected.length || entry.shape.some((size, i) => size !== expected[i]))
    throw new UserError(
      `${file.path}: tensor ${name} has shape [${entry.shape}], config.json asks for [${expected}]. The two files do not belong together.`,
    );
  return fromBytes(file.readSync(name), entry.shape, stored, "float32");
}

/** A new layer as transformers draws it: normal weights, zero bias. Each parameter has its own stream, so that adding one shifts no other. */
function initParameter(name: string, size: readonly number[], std: number, rng: Rng): Tensor {
  const tensor = zeros(size);
  if (name.endsWith(".bias")) return tensor;
  seedGenerator("cpu", rng.fork("initial", name).seed());
  noGrad(() => normal_(tensor, 0, std));
  return tensor;
}
