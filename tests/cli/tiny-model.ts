import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Rng } from "../../src/base/rng.js";
import { type SafetensorsTensor, writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../src/models/config.js";
import { getEncoderParameterShapes } from "../../src/models/encoder.js";

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

/** Writes a BERT with a few hundred random weights and a vocabulary of ten. `change` may modify its tensors. */
export async function writeTinyModel(
  folder: string,
  change: (tensors: SafetensorsTensor[]) => SafetensorsTensor[] = (tensors) => tensors,
  vocabulary: readonly string[] = words,
): Promise<string> {
  const config = { ...tinyConfig, vocab_size: vocabulary.length };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  const rng = new Rng(1);
  const tensors = [...getEncoderParameterShapes(parseModelConfig(config, "tiny"))].map(
    ([name, shape]): SafetensorsTensor => {
      const values = Float32Array.from(
        { length: shape.reduce((product, size) => product * size, 1) },
        () => rng.next() - 0.5,
      );
      return { name, dtype: "F32", shape, bytes: () => new Uint8Array(values.buffer) };
    },
  );
  await writeSafetensors(join(folder, "model.safetensors"), change(tensors));
  return folder;
}
