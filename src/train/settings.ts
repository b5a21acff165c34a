import { z } from "zod";
import { orNull } from "../base/validate.js";

const fractionSchema = z.number().min(0).max(1);
const countSchema = z.number().int().positive();
/** Learning rates and weight decays are float32 on the device. Beyond this, they overflow. */
const nonnegativeSchema = z.number().nonnegative().max(1e30);
/** AdamW divides by 1 - beta^step. */
const betaSchema = z.number().min(0).lt(1);

/** Settings of the trainer for all methods. Their defaults are defined only here. */
export const trainSettingsSchema = z
  .strictObject({
    epochs: z
      .number()
      .positive()
      .default(3)
      .describe("passes over the training data; a fraction stops within an epoch"),
    batchSize: countSchema.default(32).describe("examples per batch"),
    batchSampler: z
      .enum(["shuffled", "class-balanced", "undersampled", "single-class"])
      .default("shuffled")
      .describe(
        "examples in a batch: any, equally many of each class (rare classes are repeated), the same without " +
          "repetition until the rarest class is used up (RIFT's code), or one class only",
      ),
    classWeights: orNull(
      z.union([z.literal("balanced"), z.record(z.string(), z.number().positive().max(1e6))], {
        error: 'expected "balanced", or a positive number per label: { toxic: 10 }',
      }),
      "all have 1",
    ).describe(
      "factor of the loss by label: balanced (inverse to the frequency of the label), or a map such as " +
        "{ toxic: 10 }, in which other labels have 1",
    ),
    groupByLength: z
      .boolean()
      .default(true)
      .describe("batches of similar length, which need less padding; false: batches that ignore the length"),
    gradientAccumulationSteps: countSchema.default(1).describe("batches per optimizer step"),
    learningRate: nonnegativeSchema.default(5e-5).describe("peak learning rate"),
    headLearningRate: orNull(nonnegativeSchema, "learningRate").describe(
      "peak learning rate of the head and of the methods' own parameters",
    ),
    weightDecay: nonnegativeSchema
      .default(0.01)
      .describe("weight decay of the encoder, except for biases and LayerNorm"),
    headWeightDecay: orNull(nonnegativeSchema, "weightDecay").describe(
      "weight decay of the head and of the methods' own parameters",
    ),
    adamBeta1: betaSchema.default(0.9),
    adamBeta2: betaSchema.default(0.999),
    adamEpsilon: z.number().min(1e-30).max(1e30).default(1e-8),
    adamEpsilonMode: z
      .enum(["corrected", "uncorrected"])
      .default("corrected")
      .describe(
        "epsilon is added after the bias correction (papers, PyTorch), or before it (released code of RIFT and ROSE)",
      ),
    maxGradNorm: z
      .number()
      .positive()
      .max(1e30)
      .nullable()
      .default(1)
      .meta({ whenNull: "no clipping" })
      .describe("maximum global norm of the gradient"),
    lrScheduler: z
      .union([z.enum(["linear", "constant"]), z.array(nonnegativeSchema).min(1)])
      .default("linear")
      .describe("linear decay to 0, constant, or a list with one factor per epoch"),
    warmupRatio: fractionSchema.default(0).describe("fraction of steps in which the learning rate rises from 0"),
    dropout: z.boolean().default(true).describe("false disables every dropout of the model"),
    evalSteps: orNull(countSchema, "once per epoch").describe("steps between evaluations on the validation split"),
    evalEpochs: orNull(z.array(countSchema).min(1), "no such list").describe(
      "evaluate only after these epochs and at the end, instead of every evalSteps",
    ),
    metricForBestModel: z
      .string()
      .default("accuracy")
      .describe("validation metric that selects the best checkpoint; robust-accuracy is the default with ascc"),
    loadBestModelAtEnd: z
      .boolean()
      .default(true)
      .describe("end with the best checkpoint; false: end with the last one, whatever its validation metrics are"),
    earlyStoppingPatience: orNull(countSchema, "never stop early").describe(
      "evaluations without improvement before training stops",
    ),
    logWeightDistance: z
      .boolean()
      .default(true)
      .describe("log the distance to the pre-trained weights at each evaluation; needs a second copy of the weights"),
    saveStrategy: z
      .enum(["steps", "no"])
      .default("steps")
      .describe(
        "no: write no checkpoints; a stopped run then starts again. Writing them can take longer than a short training",
      ),
    saveSteps: orNull(countSchema, "as often as 3% of the time allows").describe("steps between checkpoints"),
    saveTotalLimit: z
      .number()
      .int()
      .nonnegative()
      .default(2)
      .describe("newest checkpoints to keep besides the best one; 0: none after the run has finished"),
    keepOptimizerState: z
      .boolean()
      .default(false)
      .describe("keep the optimizer state in the checkpoints of a finished run"),
    loggingSteps: orNull(countSchema, "1 on a CPU, 20 on a GPU, so that it rarely waits").describe(
      "steps between writes of the event log",
    ),
  })
  .superRefine((settings, context) => {
    const reject = (key: string, other: string, reason: string): void =>
      context.addIssue({ code: "custom", path: [key], message: `cannot be combined with ${other}: ${reason}` });
    if (settings.evalEpochs !== null && settings.evalSteps !== null)
      reject("evalEpochs", "evalSteps", "both say when to evaluate. Set one of them");
    if (!settings.loadBestModelAtEnd && settings.earlyStoppingPatience !== null)
      reject("earlyStoppingPatience", "loadBestModelAtEnd: false", "stopping early needs a best checkpoint");
  });

export type TrainSettings = z.output<typeof trainSettingsSchema>;

/** The steps in which the learning rate rises linearly from 0. */
export function countWarmupSteps({ warmupRatio }: Pick<TrainSettings, "warmupRatio">, totalSteps: number): number {
  return Math.floor(warmupRatio * totalSteps);
}

/** The fraction of the peak learning rate at a step and an epoch, both counted from 0. */
export function computeLearningRateFactor(
  settings: Pick<TrainSettings, "lrScheduler" | "warmupRatio">,
  step: number,
  totalSteps: number,
  epoch: number,
): number {
  const { lrScheduler } = settings;
  const warmupSteps = countWarmupSteps(settings, totalSteps);
  if (step < warmupSteps) return step / warmupSteps;
  if (lrScheduler === "constant") return 1;
  // Later epochs have the last factor of a list (RIFT: 0.1, 0.55, 1).
  if (lrScheduler !== "linear") return lrScheduler[Math.min(epoch, lrScheduler.length - 1)]!;
  return Math.max(0, (totalSteps - step) / Math.max(1, totalSteps - warmupSteps));
}
