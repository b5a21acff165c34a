import { type EncoderInput, embedWords } from "../models/index.js";
import { training } from "../nn/index.js";
import type { Tensor } from "../tensor/index.js";
import type { Step } from "../train/index.js";

/** The batch's word embeddings as a pass of that name reads them: [batch, length, hidden]. */
export function wordsOf(step: Step, pass: string): Tensor {
  return embedWords(step.run.model.shape.config, step.weights(pass, training), step.batch.input.ids);
}

/** The batch with its words shifted. */
export function shifted(step: Step, words: Tensor, shift: Tensor): EncoderInput {
  const { bias, types } = step.batch.input;
  return { bias, types: types ?? null, words: words.add(shift.to(words.type)) };
}
