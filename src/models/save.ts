import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../files.js";
import type { Weights } from "../nn/index.js";
import { type TemperMetadata, toConfigJson } from "./config.js";
import { getFamily, isHeadParameter } from "./families/index.js";
import type { Model } from "./model.js";
import { type SafetensorsTensor, toSafetensorsTensor, writeSafetensors } from "./safetensors-writer.js";

/** The files of a tokenizer, in any format. */
const tokenizerFiles =
  /^(tokenizer.*\.json|special_tokens_map\.json|added_tokens\.json|vocab\.(txt|json)|merges\.txt)$/;

/**
 * Writes a model folder that transformers can load. With the hf head it is a sequence classifier.
 * With the mlp head it is an encoder, and head.safetensors contains the head. config.json is
 * written last, because a folder without it is not a model.
 */
export async function saveModel(folder: string, model: Model, weights: Weights = model.weights): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { config, head, pooling } = model.architecture;
  const hasSeparateHead = head === "mlp";
  const { prefix, className } = getFamily(config);
  const getStoredName = (name: string): string =>
    hasSeparateHead && name.startsWith(prefix) ? name.slice(prefix.length) : name;
  const listTensors = (isHead: boolean): SafetensorsTensor[] =>
    [...weights]
      .filter(([name]) => !hasSeparateHead || isHeadParameter(name) === isHead)
      .map(([name, tensor]) => toSafetensorsTensor(getStoredName(name), tensor));
  await writeSafetensors(join(folder, "model.safetensors"), listTensors(false));
  if (hasSeparateHead) await writeSafetensors(join(folder, "head.safetensors"), listTensors(true));
  for (const file of await readdir(model.folder)) {
    if (tokenizerFiles.test(file) && model.folder !== folder)
      await writeFileAtomic(join(folder, file), await readFile(join(model.folder, file)));
  }
  const { tokenization, maxLength, task, labels } = model;
  const temper: TemperMetadata = { format: 2, tokenization, head, pooling, maxLength, task, labels: [...labels] };
  const architecture = `${className}${hasSeparateHead ? "Model" : "ForSequenceClassification"}`;
  const json = toConfigJson(config, labels, [architecture], { temper });
  await writeFileAtomic(join(folder, "config.json"), `${JSON.stringify(json, null, 2)}\n`);
}
