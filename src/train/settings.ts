import { z } from "zod";

const fractionSchema = z.number().min(0).max(1);
const countSchema = z.number().int().positive();

/** How the trainer trains, whatever the method; the defaults live here only. */
export const trainSettingsSchema = z.strictObject({
  epochs: z
    .number()
    .positive()
    .default(3)
    .describe("passes over the training data; a fraction ends in the middle of one"),
  batchSize: countSchema.default(32),
  batchSampler: z
    .enum(["shuffled", "class-balanced", "single-class"])
    .default("shuffled")
    .describe("what a batch holds: anything, every class equally, one class"),
  gradientAccumulationSteps: countSchema.default(1).describe("batches whose gradients make one update"),
  learningRate: z.number().nonnegative().default(5e-5),
  headLearningRate: z
    .number()
    .nonnegative()
    .nullable()
    .default(null)
    .describe("of the head and the methods' own parameters; null: the same"),
  weightDecay: z
    .number()
    .nonnegative()
    .default(0.01)
    .describe("on weights of the encoder, not on biases and LayerNorm"),
  headWeightDecay: z
    .number()
    .nonnegative()
    .nullable()
    .default(null)
    .describe("on weights of head and methods; null: the same"),
  adamBeta1: fractionSchema.default(0.9),
  adamBeta2: fractionSchema.default(0.999),
  adamEpsilon: z.number().positive().default(1e-8),
  maxGradNorm: z
    .number()
    .positive()
    .nullable()
    .default(1)
    .describe("largest global norm of the gradient; null: no clipping"),
  lrScheduler: z
    .union([z.enum(["linear", "constant"]), z.array(z.number().nonnegative()).min(1)])
    .default("linear")
    .describe("linear to 0, constant, or a list of factors an epoch"),
  warmupRatio: fractionSchema.default(0).describe("share of updates in which the rate rises from 0"),
  dropout: z.boolean().default(true).describe("false turns every dropout of the model off"),
  evalSteps: countSchema
    .nullable()
    .default(null)
    .describe("steps between evaluations on the selection split; null: every epoch"),
  metricForBestModel: z
    .string()
    .default("accuracy")
    .describe(
      "metric of the selection split that decides which checkpoint is best; with ascc robust-accuracy unless named",
    ),
  earlyStoppingPatience: countSchema
    .nullable()
    .default(null)
    .describe("evaluations without a better one before training stops; null: never"),
  logWeightDistance: z
    .boolean()
    .default(true)
    .describe("with each evaluation, write how far the weights are from where they began; holds a second copy of them"),
  saveSteps: countSchema.default(200).describe("steps between checkpoints to resume from"),
  saveTotalLimit: countSchema
    .default(2)
    .describe("newest checkpoints kept besides the best; with two, one may be damaged"),
  loggingSteps: countSchema
    .nullable()
    .default(null)
    .describe(
      "steps whose events are written together; null: 1 on a CPU, 20 on a GPU, which then never waits for the host",
    ),
});

export type TrainSettings = z.output<typeof trainSettingsSchema>;
