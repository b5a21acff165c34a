import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { sha256File, writeFileAtomic } from "../../base/files.js";
import type { Weights } from "../../nn/index.js";
import { readsFirstPieces } from "../../text/word-level-json.js";
import { formatConfigJson, type TemperMetadata, toConfigJson } from "../config.js";
import { getFamily, isHeadParameter } from "../families/index.js";
import type { Model } from "../model.js";
import { type SafetensorsTensor, toSafetensorsTensor, writeSafetensors } from "./safetensors-writer.js";
import { getTokenizerSource, saveTokenizer } from "./save-tokenizer.js";

const [weightsFile, headFile] = ["model.safetensors", "head.safetensors"] as const;

/**
 * Writes a model folder that transformers can load. With the hf head it is a sequence classifier.
 * With the mlp head it is an encoder, and head.safetensors contains the head. config.json is
 * written last, because a folder without it is not a model.
 */
export async function saveModel(folder: string, model: Model, weights: Weights = model.weights): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { config, head } = model.architecture;
  const hasSeparateHead = head === "mlp";
  const { prefix, className } = getFamily(config);
  const getStoredName = (name: string): string =>
    hasSeparateHead && name.startsWith(prefix) ? name.slice(prefix.length) : name;
  const listTensors = (isHead: boolean): SafetensorsTensor[] =>
    [...weights]
      .filter(([name]) => !hasSeparateHead || isHeadParameter(name) === isHead)
      .map(([name, tensor]) => toSafetensorsTensor(getStoredName(name), tensor));
  await writeSafetensors(join(folder, weightsFile), listTensors(false));
  if (hasSeparateHead) await writeSafetensors(join(folder, headFile), listTensors(true));
  await saveTokenizer(folder, getTokenizerSource(model));
  const temper = createMetadata(model, {
    note: describeIncompatibility(model) ?? undefined,
    sha256: await hashWeights(folder, hasSeparateHead ? [weightsFile, headFile] : [weightsFile]),
  });
  const classNames = { hf: "ForSequenceClassification", mlp: "Model" };
  const json = toConfigJson(config, model.labels, [`${className}${classNames[head]}`], { temper });
  await writeFileAtomic(join(folder, "config.json"), formatConfigJson(json, config.floatKeys));
}

/** The block of config.json that says how Temper reads texts and computes the model. */
export function createMetadata(
  { architecture: { head, pooling }, tokenization, normalize, maxLength, task, labels }: Model,
  rest: Partial<TemperMetadata>,
): TemperMetadata {
  const settings = { tokenization, ...(normalize && { normalize }), head, pooling, maxLength };
  return { format: 2, ...settings, task, labels: [...labels], ...rest };
}

async function hashWeights(folder: string, names: readonly string[]): Promise<Record<string, string>> {
  const hashes = await Promise.all(names.map((name) => sha256File(join(folder, name))));
  return Object.fromEntries(names.map((name, i) => [name, hashes[i]!]));
}

/** Returns why transformers does not compute the predictions of a saved model, or null. */
export function describeIncompatibility({
  architecture: { head },
  tokenization,
  normalize,
  tokenizer,
  folder,
}: Pick<Model, "architecture" | "tokenization" | "normalize" | "tokenizer" | "folder">): string | null {
  if (tokenization !== "subword" && readsFirstPieces(tokenizer, folder))
    return (
      "The model reads the first piece of each word, which no tokenizer of transformers does, so there is no " +
      "tokenizer.json. Use temper-nlp for predictions."
    );
  if (normalize === "canonical")
    return (
      "The model reads the canonical form of a text, which no tokenizer of transformers computes. " +
      "Use temper-nlp for predictions, or its function canonicalize before the tokenizer."
    );
  if (head === "mlp")
    return (
      "transformers does not have the classification head, which is in head.safetensors; it reads the encoder only. " +
      "Use onnx/model.onnx or temper-nlp for predictions."
    );
  return null;
}
