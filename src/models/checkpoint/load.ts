import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { sha256File } from "../../base/files.js";
import { createCanonicalTokenizer, type Normalization } from "../../text/canonical-tokenizer.js";
import type { Tokenization } from "../../text/encoding.js";
import { loadTokenizer } from "../../text/tokenizer.js";
import { readModelConfig, readTemperMetadata, type TemperMetadata } from "../config.js";
import type { EncoderConfig, PoolingMode } from "../families/family.js";
import { getFamily, isHeadParameter } from "../families/index.js";
import { type Architecture, getParameterShapes, type HeadName, type Model, mlpHeadPrefix } from "../model.js";
import { checkMaxLength } from "../model-input.js";
import { openCheckpoint } from "./checkpoint.js";
import { mapCheckpointNames, type ReadWeightsOptions, readWeights } from "./read-weights.js";
import { resolveModel } from "./resolve-model.js";
import { openSafetensors } from "./safetensors.js";

export interface LoadModelOptions extends ReadWeightsOptions {
  /** The labels of the task. A trained head with others is replaced. Default: the checkpoint's. */
  labels?: readonly string[];
  /** Keep the head of the checkpoint: reject a checkpoint without one or with other labels. */
  headFromModel?: boolean;
  task?: string;
  head?: HeadName;
  pooling?: PoolingMode;
  tokenization?: Tokenization;
  normalize?: Normalization;
  maxLength?: number;
  folder?: string;
  /** Called during a download from the hub, and if a head is replaced because its labels differ. */
  readonly onEvent?: Callbacks["onEvent"];
}

/**
 * Loads a model: a folder, npm:PACKAGE or a Hugging Face model ID. The settings it was trained with
 * take precedence over the options, except for the head if it is replaced.
 *
 * @example
 * const model = await loadModel("roberta-base", { labels: ["negative", "positive"] });
 */
export async function loadModel(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const folder = options.folder ?? (await resolveModel(reference, { onEvent: options.onEvent })).folder;
  const settings = await readTextSettings(reference, folder, options);
  const { config, metadata, tokenizer, tokenization, maxLength } = settings;
  await checkWeights(folder, metadata?.sha256);
  const checkpoint = await openCheckpoint(folder);
  const headFile = join(folder, "head.safetensors");
  const files = existsSync(headFile) ? [checkpoint, await openSafetensors(headFile)] : [checkpoint];
  try {
    const names = mapCheckpointNames(config, files);
    const trainedHead = metadata?.head ?? options.head ?? "hf";
    // Other heads may use the names of the mlp head, which is always in its own file.
    if (trainedHead === "mlp")
      for (const [name, { file }] of names)
        if (name.startsWith(mlpHeadPrefix) && file === checkpoint) names.delete(name);
    const headPrefix = trainedHead === "mlp" ? mlpHeadPrefix : "classifier.";
    const isTrained = [...names.keys()].some((name) => name.startsWith(headPrefix));
    if (options.headFromModel && !isTrained)
      throw new UserError(
        `--head-from-model: ${reference} has no classification head. Omit the option to train a new one.`,
      );
    const modelLabels = metadata?.labels ?? config.labels;
    const labels = options.labels ?? modelLabels;
    if (options.headFromModel) checkLabels(reference, modelLabels, labels, options.task);
    const isReplaced = isTrained && !haveSameLabels(modelLabels, labels);
    if (isReplaced) {
      for (const name of [...names.keys()].filter(isHeadParameter)) names.delete(name);
      warn(
        options,
        `The head of ${reference} is not used: its labels [${modelLabels.join(", ")}] are not those of the task ` +
          `[${labels.join(", ")}]. Training starts with its encoder and a new head.`,
      );
    }
    const head = isReplaced ? (options.head ?? "hf") : trainedHead;
    const pooling = metadata?.pooling ?? options.pooling ?? "cls";
    if (pooling === "pooler" && getFamily(config).pooler === null)
      throw new UserError(`${reference}: a ${config.modelType} encoder has no pooler. Use pooling cls or mean.`);
    const architecture: Architecture = { config, head, pooling, numLabels: labels.length };
    const { weights, newlyInitialized } = readWeights(config, getParameterShapes(architecture), names, options);
    return {
      architecture,
      weights,
      tokenizer,
      tokenization,
      ...(settings.normalize && { normalize: settings.normalize }),
      maxLength,
      labels,
      task: options.task ?? metadata?.task ?? null,
      folder,
      reference,
      newlyInitialized,
    };
  } finally {
    for (const file of files) await file.close();
  }
}

export async function readTextSettings(
  reference: string,
  folder: string,
  options: Pick<LoadModelOptions, "tokenization" | "normalize" | "maxLength">,
): Promise<
  Pick<Model, "tokenizer" | "tokenization" | "normalize" | "maxLength"> & {
    readonly config: EncoderConfig;
    readonly metadata: TemperMetadata | null;
  }
> {
  const config = await readModelConfig(folder);
  const metadata = readTemperMetadata(config, join(folder, "config.json"));
  const tokenization = metadata?.tokenization ?? options.tokenization ?? "subword";
  const tokenizer = await loadTokenizer(folder, tokenization);
  if (tokenizer.vocabSize > config.vocabSize)
    throw new UserError(
      `${reference}: the tokenizer has ${tokenizer.vocabSize} tokens, but vocab_size is ${config.vocabSize}. ` +
        "tokenizer.json and config.json do not belong together.",
    );
  const maxLength = Math.min(options.maxLength ?? metadata?.maxLength ?? config.maxLength, config.maxLength);
  checkMaxLength({ tokenizer, tokenization, maxLength }, 1);
  const normalize = metadata?.normalize ?? options.normalize ?? "none";
  if (normalize === "none") return { config, metadata, tokenizer, tokenization, maxLength };
  if (tokenization !== "subword")
    throw new UserError(
      `${reference}: normalize: canonical needs tokenization: subword, because the words of a canonical form are not ` +
        "those of the text.",
    );
  return { config, metadata, tokenizer: createCanonicalTokenizer(tokenizer), tokenization, normalize, maxLength };
}

export async function checkWeights(folder: string, hashes: Readonly<Record<string, string>> = {}): Promise<void> {
  for (const [name, expected] of Object.entries(hashes)) {
    const path = join(folder, basename(name));
    if ((await sha256File(path, { kind: "weights" })) !== expected)
      throw new UserError(
        `${path} does not match the hash in config.json: it was changed or damaged. Restore it. If you changed it, ` +
          "remove temper.sha256 from config.json.",
      );
  }
}

export function checkLabels(
  reference: string,
  modelLabels: readonly string[],
  taskLabels: readonly string[],
  task?: string,
): void {
  if (haveSameLabels(modelLabels, taskLabels)) return;
  throw new UserError(
    `The labels of ${reference} [${modelLabels.join(", ")}] and the task${task ? ` ${task}` : ""} ` +
      `[${taskLabels.join(", ")}] differ. Use a model trained on this task, or one without a classification head.`,
  );
}

/** Generic labels of a model (LABEL_0, …) match any labels of the same number. */
function haveSameLabels(modelLabels: readonly string[], taskLabels: readonly string[]): boolean {
  const isMatch = (label: string, i: number): boolean => label.toLowerCase() === taskLabels[i]?.toLowerCase();
  const isGeneric = modelLabels.every((label) => /^LABEL_\d+$/.test(label));
  return modelLabels.length === taskLabels.length && (isGeneric || modelLabels.every(isMatch));
}
