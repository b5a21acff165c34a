import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { validate } from "../../base/validate.js";
import { runtimeOptions } from "../../settings/runtime-config.js";
import { describeHiddenText, findHiddenText } from "../../text/hidden-text.js";
import { guardOptions, hiddenOptions } from "./certified-model.js";
import { findTextColumns, loadClassifier, type Prediction } from "./text-classifier.js";

export const predictRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  flushWhenIdle: z.boolean().default(false).describe("classify what is there when no more input arrives for a moment"),
  ...guardOptions,
  ...hiddenOptions,
  ...runtimeOptions,
});
interface Input {
  readonly texts: readonly string[];
  readonly line?: number;
}

/**
 * Classifies a stream of texts in order, in batches. The model is loaded at the start and freed at
 * the end.
 *
 *     for await (const { input, label } of predict({ model: "runs/reviews" }, inputs))
 *       console.log(label, input.texts);
 */
export async function* predict<T extends Input>(
  request: z.input<typeof predictRequestSchema>,
  inputs: AsyncIterable<T>,
  callbacks: Callbacks = {},
): AsyncGenerator<Prediction & { readonly input: T }> {
  const parsed = validate(predictRequestSchema, request, "predict");
  const { model, flushWhenIdle, device, precision, threads, windows, positiveLabel } = parsed;
  const { onEvent } = callbacks;
  await using classifier = await loadClassifier(model, { device, precision, threads, windows, positiveLabel, onEvent });
  // A single text and a pair are different tasks, and the model would answer either.
  const expected = (await findTextColumns(classifier.model.folder)).length;
  const checked = checkInputs(inputs, { expected, model, rejectHidden: parsed.rejectHidden });
  let [truncated, hidden] = [0, 0];
  for await (const prediction of classifier.stream(checked, { flushWhenIdle })) {
    if (prediction.truncated) truncated++;
    if (prediction.hidden) hidden++;
    yield prediction;
  }
  const { maxLength } = classifier.model;
  if (truncated > 0)
    warn(callbacks, `${truncated} ${truncated === 1 ? "text was" : "texts were"} truncated to ${maxLength} tokens.`);
  if (hidden > 0)
    warn(
      callbacks,
      `${hidden} ${hidden === 1 ? "text has" : "texts have"} hidden text, which a language model reads: see "hidden" in ` +
        "the predictions.",
    );
}

async function* checkInputs<T extends Input>(
  inputs: AsyncIterable<T>,
  {
    expected,
    model,
    rejectHidden,
  }: {
    /** The number of texts per input; 0: unknown. */
    readonly expected: number;
    readonly model: string;
    readonly rejectHidden: boolean;
  },
): AsyncGenerator<T> {
  for await (const input of inputs) {
    const place = input.line === undefined ? "an input" : `line ${input.line}`;
    const hidden = rejectHidden ? findHiddenText(input.texts) : null;
    if (hidden)
      throw new UserError(`${place} has ${describeHiddenText(hidden)}. Remove it, or leave out --reject-hidden.`);
    const count = input.texts.length;
    if (expected > 0 && count !== expected)
      throw new UserError(
        `${model} was trained on ${expected === 1 ? "single texts" : "pairs of texts"}, but ` +
          `${place} has ${count === 1 ? "one text" : "a pair"}.`,
      );
    yield input;
  }
}
