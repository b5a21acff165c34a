import { z } from "zod";
import { UserError } from "../base/errors.js";
import { countSchema, validate } from "../base/validate.js";
import { fillMasks, loadMaskedLm, type TokenPrediction } from "../models/index.js";
import { applyRuntime, runtimeOptions } from "../settings/runtime-config.js";
import { free } from "../tensor/index.js";

/** Predicts the words behind masks. */
export const fillRequestSchema = z.strictObject({
  model: z.string().describe("a masked language model: a folder, npm:PACKAGE or a Hugging Face model ID"),
  topK: countSchema.max(1000).default(5).describe("tokens per mask"),
  device: runtimeOptions.device,
  threads: runtimeOptions.threads,
});

/** A text with the predictions for its masks, the most probable first. */
export interface FilledText<T> {
  readonly input: T;
  readonly masks: readonly (readonly TokenPrediction[])[];
}

/** Matches a mask as people write it, whichever token the model has. */
const maskPattern = /\[MASK\]|<mask>/g;

/** Texts are read in windows of this size, so memory is bounded. */
const windowSize = 512;

/**
 * Predicts the tokens behind the masks of texts, in order. The model is freed at the end.
 *
 *     for await (const { masks } of fill({ model: "roberta-base", inputs })) console.log(masks[0]);
 */
export async function* fill<T extends { readonly texts: readonly string[]; readonly line: number }>({
  inputs,
  ...request
}: z.input<typeof fillRequestSchema> & { readonly inputs: AsyncIterable<T> }): AsyncGenerator<FilledText<T>> {
  const { model: reference, topK, ...runtime } = validate(fillRequestSchema, request, "fill");
  const { device } = applyRuntime(runtime);
  const model = await loadMaskedLm(reference, { device });
  const [maskToken] = model.tokenizer.idsToTokens([model.maskId]) as [string];
  const encode = ({ texts, line }: T) => {
    const marked = texts.map((text) => text.replace(maskPattern, maskToken));
    const encoding = model.tokenizer.encode(marked, model.maxLength);
    if (encoding.ids.includes(model.maskId)) return encoding;
    const reason = encoding.truncated ? ` within the first ${model.maxLength} tokens` : "";
    throw new UserError(`line ${line}: expected a mask, such as ${maskToken}, found none${reason}`);
  };
  const fillWindow = (window: readonly T[]): FilledText<T>[] =>
    fillMasks(model, window.map(encode), topK).map((masks, i) => ({ input: window[i]!, masks }));
  try {
    let window: T[] = [];
    for await (const input of inputs) {
      window.push(input);
      if (window.length < windowSize) continue;
      yield* fillWindow(window);
      window = [];
    }
    yield* fillWindow(window);
  } finally {
    free(model.weights);
  }
}
