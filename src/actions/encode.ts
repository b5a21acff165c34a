import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../base/events.js";
import { countSchema, orNull, validate } from "../base/validate.js";
import { type EncodedText, encodeTexts } from "../models/inference/encode-texts.js";
import { applyRuntime, runtimeOptions } from "../settings/runtime-config.js";
import { free } from "../tensor/index.js";
import { tokenizations } from "../text/encoding.js";
import { loadRequestedModel } from "./load/load-local-model.js";

/** Computes features of texts. */
export const encodeRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  tokenization: orNull(z.enum(tokenizations), "as in training, otherwise subword").describe("subword or word"),
  maxLength: orNull(countSchema, "the model's").describe("maximum tokens per text"),
  batchSize: countSchema.max(65_536).default(32).describe("texts per forward pass"),
  device: runtimeOptions.device,
  threads: runtimeOptions.threads,
});

/**
 * Yields tokens and features of texts, in order. The model is freed at the end.
 *
 *     for await (const { feature } of encode({ model: "roberta-base", inputs })) console.log(feature);
 */
export async function* encode<T extends { readonly texts: readonly string[]; readonly line: number }>(
  { inputs, ...request }: z.input<typeof encodeRequestSchema> & { readonly inputs: AsyncIterable<T> },
  callbacks: Callbacks = {},
): AsyncGenerator<EncodedText<T>> {
  const parsed = validate(encodeRequestSchema, request, "encode");
  const { model: reference, tokenization, maxLength, batchSize, ...runtime } = parsed;
  const { device } = applyRuntime(runtime);
  const model = await loadRequestedModel(reference, device, { tokenization, maxLength, onEvent: callbacks.onEvent });
  const truncated: number[] = [];
  try {
    const limit = model.architecture.config.maxLength;
    if (maxLength && maxLength > limit)
      throw new UserError(`--max-length: ${reference} supports at most ${limit} tokens, received ${maxLength}.`);
    const onBatch = (done: number): void => reportProgress(callbacks, "encode", done, done);
    for await (const text of encodeTexts(model, inputs, { batchSize, onProgress: onBatch })) {
      if (text.truncated) truncated.push(text.input.line);
      yield text;
    }
  } finally {
    free(model.weights);
    if (truncated.length > 0) warn(callbacks, describeTruncation(truncated, model.maxLength));
  }
}

function describeTruncation(lines: readonly number[], maxLength: number): string {
  const numbers = `${lines.slice(0, 5).join(", ")}${lines.length > 5 ? ", …" : ""}`;
  return lines.length === 1
    ? `1 text was truncated to ${maxLength} tokens (line ${numbers}).`
    : `${lines.length} texts were truncated to ${maxLength} tokens (lines ${numbers}).`;
}
