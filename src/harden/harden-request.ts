import { z } from "zod";
import { attackGroups } from "../actions/attack/attack-request.js";
import { countSchema, orNull, seedSchema } from "../base/validate.js";
import { dataOptions, runConfigSchema } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { trainSettingsSchema } from "../train/index.js";

const { validationData, testData, tokenization } = runConfigSchema.shape;
const { attackedLabel } = attackGroups.sample.shape;
const { minContextSimilarity } = attackGroups.constraints.shape;
const { epochs, batchSize, learningRate } = trainSettingsSchema.shape;

/** What `harden` accepts: the keys of a run, in one level as in a run, and a few of an attack. */
export const hardenRequestSchema = z.strictObject({
  ...dataOptions,
  ...{ validationData, testData },
  model: orNull(z.string().min(1)).describe(
    "a folder, npm:PACKAGE or a Hugging Face model ID; null: the small model of temper-nlp-demo",
  ),
  method: orNull(z.string().min(1)).describe(
    'method of the robust model, such as "ascc:beta=4"; null: one that works with a few hundred texts',
  ),
  tokenization: orNull(tokenization.unwrap()).describe("subword or word; null: word"),
  substitutions: orNull(z.string()).describe('word substitutions: "wordnet" or a JSON file; null: wordnet'),
  maxLength: orNull(countSchema).describe("maximum tokens per text; null: enough for 95% of the texts, at most 128"),
  epochs: orNull(epochs.unwrap()).describe("passes over the training data; null: enough for 75 steps, at least 2"),
  batchSize: orNull(batchSize.unwrap()).describe("examples per batch; null: 32, or fewer if a class is rare"),
  learningRate: orNull(learningRate.unwrap()).describe("peak learning rate; null: 1e-4"),
  attacks: orNull(z.array(z.string()).min(1)).describe("attacks on both models; null: pwws"),
  numExamples: orNull(countSchema).describe("texts of the test split to attack; null: 200"),
  attackedLabel,
  minContextSimilarity,
  seed: seedSchema.default(0).describe("random seed of both models and of the attacked sample"),
  out: z.string().min(1).default("runs/harden").describe("folder of both runs and of the report"),
  resume: z
    .boolean()
    .default(true)
    .describe("reuse what is finished in the folder and continue the rest; false: the folder must have no runs"),
  ...runtimeOptions,
});

/**
 * Data to harden a classifier for. All other keys replace a choice that `harden` would make.
 *
 *     const request: HardenRequest = { data: "reviews.csv", out: "runs/reviews" };
 */
export type HardenRequest = z.input<typeof hardenRequestSchema>;
export type ParsedHardenRequest = z.output<typeof hardenRequestSchema>;
