import { type EncoderInput, embedWords } from "../models/index.js";
import { trainMode } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { BatchContext } from "../train/index.js";

/** The batch's word embeddings as a pass of that name reads them: [batch, length, hidden]. */
export function embedBatchWords(step: BatchContext, pass: string): Tensor {
  return embedWords(step.run.model.architecture.config, step.weights(pass, trainMode), step.batch.input.inputIds);
}

/** The batch with its words shifted. */
export function addPerturbation(step: BatchContext, words: Tensor, shift: Tensor): EncoderInput {
  const { attentionBias: bias, tokenTypeIds: types } = step.batch.input;
  return { attentionBias: bias, tokenTypeIds: types ?? null, wordEmbeddings: words.add(shift.to(words.dtype)) };
}
