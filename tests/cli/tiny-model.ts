import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Rng } from "../../src/base/rng.js";
import { type SafetensorsTensor, writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../src/models/config.js";
import { getEncoderParameterShapes } from "../../src/models/encoder.js";
import { getParameterShapes } from "../../src/models/model.js";

const words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "quiet", "film", ".", "##s"];

export const tinyConfig = {
  model_type: "bert",
  vocab_size: words.length,
  hidden_size: 8,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  intermediate_size: 16,
  max_position_embeddings: 12,
};

type Change = (tensors: SafetensorsTensor[]) => SafetensorsTensor[];

/** Writes a BERT with a few hundred random weights and a vocabulary of ten. `change` may modify its tensors. */
export async function writeTinyModel(
  folder: string,
  change: Change = (tensors) => tensors,
  vocabulary: readonly string[] = words,
): Promise<string> {
  const config = { ...tinyConfig, vocab_size: vocabulary.length };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  const tensors = createRandomTensors(getEncoderParameterShapes(parseModelConfig(config, "tiny")), 1);
  await writeSafetensors(join(folder, "model.safetensors"), change(tensors));
  return folder;
}

/** Writes a tiny model with a random head for two labels. */
export function writeTinyClassifier(folder: string, change: Change = (tensors) => tensors): Promise<string> {
  const config = parseModelConfig(tinyConfig, "tiny");
  const shapes = getParameterShapes({ config, head: "hf", pooling: "pooler", numLabels: 2 });
  for (const name of getEncoderParameterShapes(config).keys()) shapes.delete(name);
  return writeTinyModel(folder, (tensors) => change([...tensors, ...createRandomTensors(shapes, 2)]));
}

export function createRandomTensors(
  shapes: Iterable<readonly [string, readonly number[]]>,
  seed: number,
): SafetensorsTensor[] {
  const rng = new Rng(seed);
  return [...shapes].map(([name, shape]) => {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.next() - 0.5);
    return { name, dtype: "F32", shape, bytes: () => new Uint8Array(values.buffer) };
  });
}
