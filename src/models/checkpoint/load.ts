import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../../errors.js";
import type { Callbacks } from "../../events.js";
import type { Tokenization } from "../../text/encoding.js";
import { loadTokenizer } from "../../text/tokenizer.js";
import { readModelConfig, readTemperMetadata } from "../config.js";
import type { PoolingMode } from "../families/family.js";
import { getFamily } from "../families/index.js";
import { type HeadName, mlpHeadPrefix } from "../heads.js";
import { type Architecture, getParameterShapes, type Model } from "../model.js";
import { checkMaxLength } from "../model-input.js";
import { openCheckpoint } from "./checkpoint.js";
import { mapCheckpointNames, type ReadWeightsOptions, readWeights } from "./read-weights.js";
import { resolveModel } from "./resolve-model.js";
import { openSafetensors } from "./safetensors.js";

/** Options of `loadModel`. */
export interface LoadModelOptions extends ReadWeightsOptions {
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
  /** Called during a download from the hub. */
  readonly onEvent?: Callbacks["onEvent"];
}

/**
 * Loads a model: a folder, npm:PACKAGE or a Hugging Face model ID. The settings it was trained with
 * take precedence over the options.
 *
 * @example
 * const model = await loadModel("roberta-base", { labels: ["negative", "positive"] });
 */
export async function loadModel(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const { folder } = await resolveModel(reference, { onEvent: options.onEvent });
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
    // Other heads may use the names of the mlp head, which is always in its own file.
    if (head === "mlp")
      for (const [name, { file }] of names)
        if (name.startsWith(mlpHeadPrefix) && file === checkpoint) names.delete(name);
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
    const { weights, newlyInitialized } = readWeights(config, getParameterShapes(architecture), names, options);
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
