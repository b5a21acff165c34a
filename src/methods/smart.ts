import { z } from "zod";
import { evalMode, mapWeights, symmetricKl, type Weights } from "../nn/index.js";
import { grad, keep, noGrad, randn, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext, OptimizerStep, TrainingMethod } from "../train/index.js";
import { defineMethod, fractionSchema, nonnegativeSchema } from "./define-method.js";
import { addPerturbation, embedBatchWords } from "./word-embedding-input.js";

const optionsSchema = z.strictObject({
  lambda: nonnegativeSchema.default(1).describe("weight of the smoothness term; the paper tries 1, 3 and 5"),
  mu: nonnegativeSchema.default(1).describe("weight of the proximal term"),
  steps: z.number().int().positive().default(1).describe("ascent steps"),
  noiseStd: z.number().positive().default(1e-5).describe("standard deviation of the initial noise"),
  stepSize: z.number().positive().default(1e-3).describe("length of an ascent step"),
  epsilon: z
    .number()
    .positive()
    .default(1e-5)
    .describe("radius of the ball (projection: paper), or constant against division by zero (projection: code)"),
  projection: z
    .enum(["paper", "code"])
    .default("paper")
    .describe("paper: clamp to the ball of radius epsilon; code: divide each token by its largest element"),
  emaDecay: fractionSchema
    .default(0.99)
    .describe("decay of the exponential moving average of the weights in the first 10% of the steps"),
  lateEmaDecay: fractionSchema.default(0.999).describe("decay of the moving average in the remaining steps"),
});

type Options = z.output<typeof optionsSchema>;

/**
 * Smaller perturbations vanish in bfloat16: word embeddings are about 0.01 and it has 8 significant
 * bits.
 */
const minBfloat16Perturbation = 1e-3;

/** Avoids a division by zero at padding tokens, whose gradient is 0. */
const minDivisor = 1e-30;

/** The largest absolute element of each token: [batch, length, 1]. */
const computeMaxAbs = (tensor: Tensor): Tensor => tensor.abs().amax([-1], true);

/** Moves the perturbation uphill and projects it. */
function ascend(
  noise: Tensor,
  gradient: Tensor,
  { stepSize, epsilon, projection }: Pick<Options, "stepSize" | "epsilon" | "projection">,
): Tensor {
  if (projection === "code") {
    const moved = noise.add(gradient.mul(stepSize));
    return moved.div(computeMaxAbs(moved).add(epsilon));
  }
  return noise.add(gradient.div(computeMaxAbs(gradient).clamp(minDivisor)).mul(stepSize)).clamp(-epsilon, epsilon);
}

/**
 * Finds the perturbation of the word embeddings that changes the output most. The weights get no
 * gradients.
 */
export function searchPerturbation(
  context: BatchContext,
  embeddings: Tensor,
  cleanLogits: Tensor,
  initialNoise: Tensor,
  options: Options,
): Tensor {
  return scope(() => {
    const fixedEmbeddings = embeddings.detach();
    const target = cleanLogits.detach();
    let noise = initialNoise;
    for (let i = 0; i < options.steps; i++) {
      const leaf = noise.detach().requiresGrad_();
      const probe = context.pass(`smart.probe.${i}`, { input: addPerturbation(context, fixedEmbeddings, leaf) });
      const [gradient] = grad(context.scaleToGlobalBatch(symmetricKl(target, probe.logits)), [leaf]) as [Tensor];
      noise = ascend(leaf.detach(), gradient, options);
    }
    return noise;
  });
}

/** The smoothness term: how much the worst perturbation near each text changes the output. */
export function computeSmoothnessLoss(
  context: BatchContext,
  cleanLogits: Tensor,
  sampleNoise: (shape: readonly number[]) => Tensor,
  options: Options,
): Tensor {
  const embeddings = embedBatchWords(context, "perturbed");
  const noise = searchPerturbation(context, embeddings, cleanLogits, sampleNoise(embeddings.shape), options);
  const perturbed = context.pass("perturbed", { input: addPerturbation(context, embeddings, noise) });
  return symmetricKl(cleanLogits, perturbed.logits);
}

/** The proximal term: the Bregman divergence from the output of the averaged weights. */
export function computeProximalLoss(context: BatchContext, cleanLogits: Tensor, emaWeights: Weights): Tensor {
  const averaged = noGrad(() => context.pass("smart.slow", { weights: emaWeights, mode: evalMode }));
  return symmetricKl(cleanLogits, averaged.logits);
}

function createSmart(options: Options): TrainingMethod {
  let emaWeights = new Map<string, Tensor>();
  const requiresFloat32 =
    options.projection === "paper" && options.epsilon < minBfloat16Perturbation
      ? `a perturbation of ${options.epsilon} vanishes in bfloat16`
      : null;
  return {
    name: "smart",
    traits: {
      acrossProcesses: "mean",
      exclusiveRoles: { adversary: "searches its own perturbation" },
      ...(requiresFloat32 !== null && { requiresFloat32 }),
    },
    checkCompatibility(_innerMethods, { deviceConfig }) {
      if (deviceConfig.computeDtype === "float32" || requiresFloat32 === null) return null;
      return `${requiresFloat32}. Use precision: tf32 or fp32, or projection: code.`;
    },
    async prepare({ job }) {
      if (options.mu === 0) return;
      emaWeights = scope(() => noGrad(() => mapWeights(job.model.weights, (tensor) => keep(tensor.detach().clone()))));
    },
    state: () => ({ buffers: new Map([...emaWeights].map(([name, tensor]) => [`smart.slow.${name}`, tensor])) }),
    losses(context, next) {
      const losses = new Map(next());
      const { logits } = context.pass("clean");
      const { device } = context.training.job.deviceConfig;
      const sampleNoise = (shape: readonly number[]): Tensor => {
        context.enterRandomStream("smart");
        return context.sampleRows(shape, (rows) => randn(rows, { device })).mul(options.noiseStd);
      };
      if (options.lambda > 0)
        losses.set("smoothness", computeSmoothnessLoss(context, logits, sampleNoise, options).mul(options.lambda));
      if (options.mu > 0) losses.set("proximal", computeProximalLoss(context, logits, emaWeights).mul(options.mu));
      return losses;
    },
    afterStep(step, next) {
      next();
      if (emaWeights.size === 0) return;
      const weight = computeEmaWeight(step, options);
      for (const [name, parameter] of step.training.job.model.weights)
        emaWeights.get(name)?.lerp_(parameter.detach(), weight);
    },
  };
}

/**
 * The weight 1 - decay of the new weights. It uses the optimizer's step tensor, so that a graph can
 * be replayed.
 */
function computeEmaWeight({ training, optimizer }: OptimizerStep, { emaDecay, lateEmaDecay }: Options): Tensor {
  const isEarly = optimizer.step.le(0.1 * training.totalSteps).to("float32");
  return isEarly.mul(lateEmaDecay - emaDecay).add(1 - lateEmaDecay);
}

/**
 * SMART: a smoothness term around each text and a proximal term to a moving average of the weights.
 */
export const smart = defineMethod({
  name: "smart",
  summary: "keeps outputs smooth around each text and close to a moving average of the model",
  paper: "Jiang et al. 2020, SMART: Robust and Efficient Fine-Tuning through Principled Regularized Optimization",
  cost: "2.9",
  options: optionsSchema,
  create: createSmart,
});
