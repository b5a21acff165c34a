import { Rng } from "../../src/base/rng.js";
import type { SafetensorsTensor } from "../../src/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../src/models/config.js";
import { getMaskedLmParameterShapes } from "../../src/models/model.js";
import { tinyConfig, writeTinyModel } from "../cli/tiny-model.js";

const vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] good fine bad dull film plot the was very ##s .".split(" ");

/** Writes a masked language model with random weights. */
export function writeMaskedLm(path: string): Promise<string> {
  const shapes = getMaskedLmParameterShapes(
    parseModelConfig({ ...tinyConfig, vocab_size: vocabulary.length, tie_word_embeddings: true }, "tiny"),
  );
  return writeTinyModel(path, (tensors) => [...tensors, ...createRandomTensors([...shapes])], vocabulary);
}

export function createRandomTensors(shapes: readonly (readonly [string, readonly number[]])[]): SafetensorsTensor[] {
  const rng = new Rng(2);
  return shapes.map(([name, shape]) => {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.next() - 0.5);
    return { name, dtype: "F32" as const, shape, bytes: () => new Uint8Array(values.buffer) };
  });
}
