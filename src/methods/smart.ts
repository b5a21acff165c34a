import { z } from "zod";
import { evalMode, mapWeights, symmetricKl, type Weights } from "../nn/index.js";
import { grad, keep, noGrad, randn, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext, OptimizerStep, TrainingMethod } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { fractionSchema } from "./options.js";
import { addPerturbation, embedBatchWords } from "./word-embedding-input.js";

const options = z.strictObject({
  lambda: z.number().nonnegative().default(1).describe("weight of the smoothness term; the paper tries 1, 3 and 5"),
  mu: z.number().nonnegative().default(1).describe("weight of the proximal term"),
  steps: z.number().int().positive().default(1).describe("ascent steps"),
  noiseStd: z.number().positive().default(1e-5).describe("deviation of the first noise"),
  stepSize: z.number().positive().default(1e-3).describe("length of an ascent step"),
  epsilon: z
    .number()
    .positive()
    .default(1e-5)
    .describe("radius of the ball (paper), or what steadies the division (code)"),
  projection: z
    .enum(["paper", "code"])
    .default("paper")
    .describe("paper: the ball of radius epsilon; code: every token divided by its largest entry"),
  emaDecay: fractionSchema
    .default(0.99)
    .describe("what the slow copy keeps of itself in the first tenth of the updates"),
  lateEmaDecay: fractionSchema.default(0.999).describe("the same afterwards"),
});

type Options = z.output<typeof options>;

/** Word embeddings are a few hundredths in size, and bfloat16 has eight bits for them. */
const minBfloat16Perturbation = 1e-3;

/** Keeps a division by a token's largest entry finite where the token, being padding, has no gradient. */
const tiny = 1e-30;

/** The largest absolute entry of each token: [batch, length, 1]. */
const computeMaxAbs = (tensor: Tensor): Tensor => tensor.abs().amax([-1], true);

/** One step uphill and back into what the perturbation may be. */
export function ascend(
  noise: Tensor,
  gradient: Tensor,
  { stepSize, epsilon, projection }: Pick<Options, "stepSize" | "epsilon" | "projection">,
): Tensor {
  if (projection === "code") {
    const moved = noise.add(gradient.mul(stepSize));
    return moved.div(computeMaxAbs(moved).add(epsilon));
  }
  return noise.add(gradient.div(computeMaxAbs(gradient).clamp(tiny)).mul(stepSize)).clamp(-epsilon, epsilon);
}

/** The perturbation of the word embeddings that changes the output most: gradients reach it alone, no weight. */
export function searchPerturbation(
  step: BatchContext,
  words: Tensor,
  clean: Tensor,
  start: Tensor,
  chosen: Options,
): Tensor {
  return scope(() => {
    const from = words.detach();
    const target = clean.detach();
    let noise = start;
    for (let i = 0; i < chosen.steps; i++) {
      const leaf = noise.detach().requiresGrad_();
      const probe = step.pass(`smart.probe.${i}`, { input: addPerturbation(step, from, leaf) });
      const [gradient] = grad(symmetricKl(target, probe.logits), [leaf]) as [Tensor];
      noise = ascend(leaf.detach(), gradient, chosen);
    }
    return noise;
  });
}

/** How much the hardest perturbation near every text changes the output. */
export function computeSmoothnessLoss(
  step: BatchContext,
  clean: Tensor,
  start: (shape: readonly number[]) => Tensor,
  chosen: Options,
): Tensor {
  const words = embedBatchWords(step, "perturbed");
  const noise = searchPerturbation(step, words, clean, start(words.shape), chosen);
  const perturbed = step.pass("perturbed", { input: addPerturbation(step, words, noise) });
  return symmetricKl(clean, perturbed.logits);
}

/** How far the output is from the slow copy's (the Bregman divergence of the output). */
export function computeProximalLoss(step: BatchContext, clean: Tensor, emaWeights: Weights): Tensor {
  const before = noGrad(() => step.pass("smart.slow", { weights: emaWeights, mode: evalMode }));
  return symmetricKl(clean, before.logits);
}

/** SMART: a smoothness term around every text, and a proximal term to a slow copy of the model. */
function createSmart(chosen: Options): TrainingMethod {
  let emaWeights = new Map<string, Tensor>();
  const tiny = chosen.projection !== "code" && chosen.epsilon < minBfloat16Perturbation;
  return {
    name: "smart",
    exclusiveRoles: { adversary: "searches a perturbation of its own" },
    ...(tiny ? { requiresFloat32: `a perturbation of ${chosen.epsilon} vanishes in bfloat16` } : {}),
    checkCompatibility(_beneath, { computeDtype: compute }) {
      if (compute === "float32" || !tiny) return null;
      return `${this.requiresFloat32}; use precision: tf32 or fp32, or projection: code`;
    },
    async prepare(run) {
      if (chosen.mu === 0) return;
      emaWeights = scope(() => noGrad(() => mapWeights(run.model.weights, (tensor) => keep(tensor.detach().clone()))));
    },
    state: () => ({ buffers: new Map([...emaWeights].map(([name, tensor]) => [`smart.slow.${name}`, tensor])) }),
    losses(step, next) {
      const losses = new Map(next());
      const { logits } = step.pass("clean");
      const noise = (shape: readonly number[]): Tensor => {
        step.enterRandomStream("smart");
        return randn(shape, { device: step.run.device }).mul(chosen.noiseStd);
      };
      if (chosen.lambda > 0)
        losses.set("smoothness", computeSmoothnessLoss(step, logits, noise, chosen).mul(chosen.lambda));
      if (chosen.mu > 0) losses.set("proximal", computeProximalLoss(step, logits, emaWeights).mul(chosen.mu));
      return losses;
    },
    afterStep(update, next) {
      next();
      if (emaWeights.size === 0) return;
      const weight = computeEmaWeight(update, chosen);
      for (const [name, parameter] of update.run.model.weights) emaWeights.get(name)?.lerp_(parameter.detach(), weight);
    },
  };
}

/** What of the new weights goes into the slow copy, from the optimiser's own count, so that a captured step can be replayed. */
function computeEmaWeight(
  { run, optimizer }: OptimizerStep,
  { emaDecay: beta, lateEmaDecay: laterBeta }: Options,
): Tensor {
  const early = optimizer.step.le(0.1 * run.totalSteps).to("float32");
  return early.mul(laterBeta - beta).add(1 - laterBeta);
}

export const smart = defineMethod({
  name: "smart",
  summary: "outputs that stay smooth around every text and close to a slow copy of the model",
  paper: "Jiang et al. 2020, SMART: Robust and Efficient Fine-Tuning through Principled Regularized Optimization",
  options,
  create: createSmart,
});
