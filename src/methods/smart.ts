import { z } from "zod";
import { orNull } from "../base/validate.js";
import { type EncoderInput, embedInput } from "../models/index.js";
import { evalMode, klDivergence, mapWeights, symmetricKl, trainMode, type Weights } from "../nn/index.js";
import { grad, keep, noGrad, randn, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext, OptimizerStep, TrainingMethod } from "../train/index.js";
import { defineMethod, fractionSchema, nonnegativeSchema } from "./define-method.js";
import { addPerturbation, computeMaxAbs, embedBatchWords, minDivisor } from "./word-embedding-input.js";

const optionsSchema = z.strictObject({
  lambda: nonnegativeSchema.default(1).describe("weight of the smoothness term; the paper tries 1, 3 and 5"),
  mu: nonnegativeSchema.default(1).describe("weight of the proximal term"),
  steps: z.number().int().positive().default(1).describe("ascent steps"),
  noiseStd: z.number().positive().default(1e-5).describe("standard deviation of the initial noise"),
  stepSize: orNull(z.number().positive(), "1e-3 (projection: paper) or 1e-5 (projection: code)").describe(
    "length of an ascent step",
  ),
  epsilon: orNull(z.number().positive(), "1e-5 (projection: paper) or 1e-6 (projection: code)").describe(
    "radius of the ball (projection: paper), or constant against division by zero (projection: code)",
  ),
  projection: z
    .enum(["paper", "code"])
    .default("paper")
    .describe(
      "paper: word embeddings, clamped to the ball of radius epsilon; code: as released, the output of the " +
        "embedding layer, each token divided by its largest element",
    ),
  emaDecay: fractionSchema
    .default(0.99)
    .describe("decay of the exponential moving average of the weights in the first 10% of the steps"),
  lateEmaDecay: fractionSchema.default(0.999).describe("decay of the moving average in the remaining steps"),
});

type SmartOptions = z.output<typeof optionsSchema>;

/** Smaller perturbations vanish in bfloat16, in which embeddings have 8 significant bits. */
const minBfloat16Perturbation = 1e-3;

/** The differences between SMART's paper and its released code (mt-dnn). */
interface Variant {
  readonly stepSize: number;
  readonly epsilon: number;
  /** The embeddings that are perturbed: [batch, length, hidden]. */
  embed(context: BatchContext): Tensor;
  createInput(context: BatchContext, embeddings: Tensor, perturbation: Tensor): EncoderInput;
  /** The loss that the inner steps increase. The target has no gradient. */
  computeInnerLoss(logits: Tensor, target: Tensor): Tensor;
  ascend(noise: Tensor, gradient: Tensor, stepSize: number, epsilon: number): Tensor;
  computeOuterLoss(cleanLogits: Tensor, perturbedLogits: Tensor): Tensor;
}

const variants: Readonly<Record<SmartOptions["projection"], Variant>> = {
  paper: {
    stepSize: 1e-3,
    epsilon: 1e-5,
    embed: (context) => embedBatchWords(context, "perturbed"),
    createInput: addPerturbation,
    computeInnerLoss: (logits, target) => symmetricKl(target, logits),
    ascend: (noise, gradient, stepSize, epsilon) =>
      noise.add(gradient.div(computeMaxAbs(gradient).clamp(minDivisor)).mul(stepSize)).clamp(-epsilon, epsilon),
    computeOuterLoss: symmetricKl,
  },
  code: {
    stepSize: 1e-5,
    epsilon: 1e-6,
    embed: embedBatch,
    createInput(context, embeddings, perturbation) {
      const { attentionBias, packing = null } = context.batch.input;
      return { attentionBias, packing, embeddingOutput: embeddings.add(perturbation.to(embeddings.dtype)) };
    },
    computeInnerLoss: sumStableKl,
    ascend(noise, gradient, stepSize, epsilon) {
      const moved = noise.add(gradient.mul(stepSize));
      return moved.div(computeMaxAbs(moved).add(epsilon));
    },
    computeOuterLoss: symmetricKlToConstants,
  },
};

/** The output of the embedding layer, with the weights and the dropout of the perturbed pass. */
function embedBatch(context: BatchContext): Tensor {
  const { config } = context.training.job.model.architecture;
  const weights = context.weights("perturbed", trainMode);
  context.enterRandomStream("perturbed", "embedding");
  return scope(() => embedInput(config, weights, context.batch.input, context.resolveMode(trainMode)));
}

/** The released code's smoothness term: symmetric KL with constant targets, half the gradient. */
export function symmetricKlToConstants(clean: Tensor, perturbed: Tensor): Tensor {
  return klDivergence(perturbed.detach(), clean).add(klDivergence(clean.detach(), perturbed));
}

/** Keeps the released log-odds finite. */
const minProbability = 1e-6;

/**
 * The inner loss of the released code: 2 sum p (o(p) - o(target)) with the log-odds o(p), whose
 * gradient flows through the factor p only.
 */
export function sumStableKl(logits: Tensor, target: Tensor): Tensor {
  const computeLogOdds = (p: Tensor): Tensor =>
    p
      .detach()
      .add(minProbability)
      .reciprocal()
      .add(minProbability - 1)
      .log()
      .neg();
  const [p, q] = [logits.softmax(-1), target.softmax(-1)];
  return p
    .mul(computeLogOdds(p).sub(computeLogOdds(q)))
    .sum()
    .mul(2);
}

export function searchPerturbation(
  context: BatchContext,
  embeddings: Tensor,
  cleanLogits: Tensor,
  initialNoise: Tensor,
  options: SmartOptions,
): Tensor {
  const variant = variants[options.projection];
  const { steps, stepSize, epsilon } = options;
  return scope(() => {
    const fixedEmbeddings = embeddings.detach();
    const target = cleanLogits.detach();
    let noise = initialNoise;
    for (let i = 0; i < steps; i++) {
      const leaf = noise.detach().requiresGrad_();
      const input = variant.createInput(context, fixedEmbeddings, leaf);
      const { logits } = context.pass(`smart.probe.${i}`, { input });
      const [gradient] = grad(variant.computeInnerLoss(logits, target), [leaf]) as [Tensor];
      noise = variant.ascend(leaf.detach(), gradient, stepSize ?? variant.stepSize, epsilon ?? variant.epsilon);
    }
    return noise;
  });
}

/** The smoothness term: how much the worst perturbation near each text changes the output. */
export function computeSmoothnessLoss(
  context: BatchContext,
  cleanLogits: Tensor,
  sampleNoise: (shape: readonly number[]) => Tensor,
  options: SmartOptions,
): Tensor {
  const variant = variants[options.projection];
  const embeddings = variant.embed(context);
  const noise = searchPerturbation(context, embeddings, cleanLogits, sampleNoise(embeddings.shape), options);
  const perturbed = context.pass("perturbed", { input: variant.createInput(context, embeddings, noise) });
  return variant.computeOuterLoss(cleanLogits, perturbed.logits);
}

/** The proximal term: the Bregman divergence from the output of the averaged weights. */
export function computeProximalLoss(context: BatchContext, cleanLogits: Tensor, emaWeights: Weights): Tensor {
  const averaged = noGrad(() => context.pass("smart.slow", { weights: emaWeights, mode: evalMode }));
  return symmetricKl(cleanLogits, averaged.logits);
}

function createSmart(options: SmartOptions): TrainingMethod {
  let emaWeights = new Map<string, Tensor>();
  const radius = options.epsilon ?? variants.paper.epsilon;
  const requiresFloat32 =
    options.projection === "paper" && radius < minBfloat16Perturbation
      ? `a perturbation of ${radius} vanishes in bfloat16`
      : null;
  return {
    name: "smart",
    traits: {
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
        return randn(shape, { device }).mul(options.noiseStd);
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

/** The weight 1 - decay of the new weights, from the step tensor, so that graphs can be replayed. */
function computeEmaWeight({ training, optimizer }: OptimizerStep, { emaDecay, lateEmaDecay }: SmartOptions): Tensor {
  const isEarly = optimizer.step.le(0.1 * training.totalSteps).to("float32");
  return isEarly.mul(lateEmaDecay - emaDecay).add(1 - lateEmaDecay);
}

export const smart = defineMethod({
  name: "smart",
  summary: "keeps outputs smooth around each text and close to a moving average of the model",
  paper: "Jiang et al. 2020, SMART: Robust and Efficient Fine-Tuning through Principled Regularized Optimization",
  cost: { gpu: "2.9", cpu: "3.0" },
  options: optionsSchema,
  create: createSmart,
});
