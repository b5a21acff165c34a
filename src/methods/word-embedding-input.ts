import { type EncoderInput, embedWords } from "../models/index.js";
import { trainMode } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { BatchContext, PassName } from "../train/index.js";

/** The word embeddings of the batch with the weights of a pass: [batch, length, hidden]. */
export function embedBatchWords(context: BatchContext, pass: PassName): Tensor {
  const { config } = context.training.job.model.architecture;
  return embedWords(config, context.weights(pass, trainMode), context.batch.input.inputIds);
}

export function addPerturbation(context: BatchContext, embeddings: Tensor, perturbation: Tensor): EncoderInput {
  const { attentionBias, packing, tokenTypeIds } = context.batch.input;
  const wordEmbeddings = embeddings.add(perturbation.to(embeddings.dtype));
  return { attentionBias, packing: packing ?? null, tokenTypeIds: tokenTypeIds ?? null, wordEmbeddings };
}

/** Avoids a division by zero at padding tokens, whose gradient is 0. */
export const minDivisor = 1e-30;

/** The largest absolute element of each token: [batch, length, 1]. */
export const computeMaxAbs = (tensor: Tensor): Tensor => tensor.abs().amax([-1], true);
