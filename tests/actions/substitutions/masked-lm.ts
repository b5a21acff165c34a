import { parseModelConfig } from "../../../src/models/config.js";
import { getMaskedLmParameterShapes } from "../../../src/models/masked-lm.js";
import { createRandomTensors, tinyConfig, writeTinyModel } from "../../cli/tiny-model.js";

const vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] good fine bad dull film plot the was very ##s .".split(" ");

/** Writes a masked language model with random weights. */
export function writeMaskedLm(path: string): Promise<string> {
  const shapes = getMaskedLmParameterShapes(
    parseModelConfig({ ...tinyConfig, vocab_size: vocabulary.length, tie_word_embeddings: true }, "tiny"),
  );
  return writeTinyModel(path, (tensors) => [...tensors, ...createRandomTensors(shapes, 2)], vocabulary);
}
