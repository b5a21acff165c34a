import { copyFile, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../files.js";
import type { Weights } from "../nn/index.js";
import { type TemperMetadata, toConfigJson } from "./config.js";
import { getParameterPrefix } from "./encoder.js";
import { isHeadParameter, type Model } from "./model.js";
import { type SafetensorsTensor, writeSafetensors } from "./safetensors-writer.js";

/** The files that make a tokenizer, in any of its forms. */
const tokenizerFiles =
  /^(tokenizer.*\.json|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt)$/;

/**
 * Writes a model folder that transformers reads: with the hf head as a sequence classifier, with the mlp head as a plain encoder
 * with the head beside it in head.safetensors. config.json is written last: a folder without it is not a model.
 */
export async function saveModel(folder: string, model: Model, weights: Weights = model.weights): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { architecture: shape } = model;
  const plain = shape.head === "mlp";
  const prefix = getParameterPrefix(shape.config);
  const inFile = (name: string): string => (plain && name.startsWith(prefix) ? name.slice(prefix.length) : name);
  const tensors = (heads: boolean): SafetensorsTensor[] =>
    [...weights]
      .filter(([name]) => !plain || isHeadParameter(name) === heads)
      .map(([name, tensor]) => ({
        name: inFile(name),
        dtype: "F32",
        shape: tensor.shape,
        bytes: () => tensor.toBytes(),
      }));
  await writeSafetensors(join(folder, "model.safetensors"), tensors(false), { format: "pt" });
  if (plain) await writeSafetensors(join(folder, "head.safetensors"), tensors(true), { format: "pt" });
  for (const file of await readdir(model.folder)) {
    if (tokenizerFiles.test(file) && model.folder !== folder)
      await copyFile(join(model.folder, file), join(folder, file));
  }
  const facts: TemperMetadata = {
    format: 2,
    tokenization: model.tokenization,
    head: shape.head,
    pooling: shape.pooling,
    maxLength: model.maxLength,
    task: model.task,
    labels: [...model.labels],
  };
  const family = shape.config.modelType === "bert" ? "Bert" : "Roberta";
  const architecture = `${family}${plain ? "Model" : "ForSequenceClassification"}`;
  const config = toConfigJson(shape.config, model.labels, [architecture], { temper: facts });
  await writeFileAtomic(join(folder, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
}
