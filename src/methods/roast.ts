import { z } from "zod";
import { crossEntropy, flattenTensors, mapWeights, symmetricKl, unflattenTensors } from "../nn/index.js";
import { arange, grad, keep, rand, scope, type Tensor, zeros, zerosLike } from "../tensor/index.js";
import type { BatchContext, NamedTensors, OptimizerStep, TrainingMethod } from "../train/index.js";
import { computeFisherDiagonal, getLayerParameters } from "./child-tuning.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";
import { scatter, stableSort } from "./quantile.js";
import { addPerturbation, computeMaxAbs, embedBatchWords, minDivisor } from "./word-embedding-input.js";

const optionsSchema = z.strictObject({
  epsilon: nonnegativeSchema
    .default(0.1)
    .describe("largest absolute value of the perturbation of a token; 0: no perturbation and no consistency term"),
  lambda: nonnegativeSchema.default(0.01).describe("weight of the consistency term"),
  alpha: z
    .number()
    .min(0)
    .lt(1)
    .default(0.9)
    .describe("rank at which half of the elements are updated (0.9: sentiment, 0.6: entailment); 0: update all"),
  beta: nonnegativeSchema
    .default(10)
    .describe("how sharply the probability of an update rises with the rank (10: sentiment, 1: entailment)"),
});

type RoastOptions = z.output<typeof optionsSchema>;

/** One ascent step: epsilon g / max |g|, with the largest element of each token. */
function searchPerturbation(context: BatchContext, embeddings: Tensor, epsilon: number): Tensor {
  return scope(() => {
    const leaf = zerosLike(embeddings).detach().requiresGrad_();
    const probe = context.pass("roast.search", { input: addPerturbation(context, embeddings.detach(), leaf) });
    // Class weights and focus scale the gradient of an example, and the division removes the scale.
    const loss = crossEntropy(probe.logits, context.batch.labels);
    const [gradient] = grad(loss, [leaf]) as [Tensor];
    return gradient.div(computeMaxAbs(gradient).clamp(minDivisor)).mul(epsilon);
  });
}

/**
 * The probability that each element is updated, from its squared gradient s: sigmoid(2 beta (q -
 * alpha)), where q in [0, 1] is the rank of s among all elements.
 */
export function computeUpdateProbabilities(
  scores: readonly Tensor[],
  { alpha, beta }: Pick<RoastOptions, "alpha" | "beta">,
): Tensor[] {
  return scope(() => {
    const flat = flattenTensors(scores);
    const order = stableSort(flat, true, 0, false)[1];
    const ranks = scatter(zerosLike(flat), 0, order, arange(flat.numel, flat.device).to("float32"));
    const probabilities = ranks
      .div(Math.max(1, flat.numel - 1))
      .sub(alpha)
      .mul(2 * beta)
      .sigmoid();
    return unflattenTensors(
      probabilities,
      scores.map(({ shape }) => shape),
    );
  });
}

/** Samples m / p with m ~ Bernoulli(p), so that the expected gradient does not change. */
function sampleMask(probabilities: Tensor): Tensor {
  const chosen = rand(probabilities.shape, { device: probabilities.device }).lt(probabilities);
  return chosen.to("float32").div(probabilities);
}

function createRoast(options: RoastOptions): TrainingMethod {
  const selects = options.alpha > 0;
  let stepsPerEpoch = 1;
  /** The squared gradients of the current epoch, before the first one those of the Fisher pass. */
  let scores: NamedTensors = new Map();
  let masks: NamedTensors = new Map();
  const isEpochStart = (stepIndex: number): boolean => stepIndex % stepsPerEpoch === 0;
  const nameBuffers = (kind: string, tensors: NamedTensors): [string, Tensor][] =>
    [...tensors].map(([name, tensor]) => [`roast.${kind}.${name}`, tensor]);

  const refreshMasks = (step: OptimizerStep): void => {
    step.enterRandomStream("roast");
    const probabilities = computeUpdateProbabilities([...scores.values()], options);
    for (const [i, mask] of [...masks.values()].entries()) mask.copy_(sampleMask(probabilities[i]!));
  };

  const method: TrainingMethod = {
    name: "roast",
    traits: {
      exclusiveRoles: {
        ...(options.epsilon > 0 && { adversary: "searches its own perturbation" }),
        ...(selects && { selection: "decides which parameters are updated" }),
      },
      ...(selects && { needsAllWeights: "selects among all weights of the layers" }),
      graphKey: (stepIndex) => (selects && isEpochStart(stepIndex) ? "refresh" : ""),
    },
    checkCompatibility(innerMethods, { methods }) {
      const outer = methods.slice(innerMethods.length + 1).find(({ traits }) => traits?.usesTwoPasses);
      return outer && options.epsilon > 0
        ? `${outer.name} replaces the task loss of the perturbed text. List roast after ${outer.name}.`
        : null;
    },
    async prepare(training) {
      ({ stepsPerEpoch } = training);
      if (!selects) return;
      const parameters = getLayerParameters(training);
      const { device } = training.job.deviceConfig;
      const createZeros = (): NamedTensors => keep(mapWeights(parameters, ({ shape }) => zeros(shape, { device })));
      masks = createZeros();
      // The trainer restores the buffers of a resumed run, so the pass over the data is not repeated.
      scores = training.restoredBuffers ? createZeros() : await computeFisherDiagonal(training, parameters);
    },
    state: () => ({ buffers: new Map([...nameBuffers("score", scores), ...nameBuffers("mask", masks)]) }),
    losses(context, next) {
      const losses = new Map(next());
      if (options.epsilon === 0) return losses;
      const { logits } = context.pass("clean");
      const embeddings = embedBatchWords(context, "perturbed");
      const perturbation = searchPerturbation(context, embeddings, options.epsilon);
      const perturbed = context.pass("perturbed", { input: addPerturbation(context, embeddings, perturbation) });
      return losses
        .set("task", context.training.taskLoss(perturbed.logits, context.batch.labels))
        .set("consistency", symmetricKl(logits, perturbed.logits).mul(options.lambda));
    },
  };
  if (!selects) return method;
  return Object.assign(method, {
    transformUpdates(step, next) {
      const updates = next();
      if (isEpochStart(step.stepIndex)) refreshMasks(step);
      for (const [name, mask] of masks) {
        const update = updates.get(name);
        // The product is a new tensor: `afterStep` still needs the gradient.
        if (update) updates.set(name, { ...update, gradient: update.gradient.mul(mask) });
      }
      return updates;
    },
    afterStep(step, next) {
      next();
      for (const [name, score] of scores) {
        const squared = (step.gradients.get(name) as Tensor).square();
        if (isEpochStart(step.stepIndex)) score.copy_(squared);
        else score.add_(squared);
      }
    },
  } satisfies Partial<TrainingMethod>);
}

export const roast = defineMethod({
  name: "roast",
  summary: "trains on perturbed text and updates elements at random, more often those with large gradients",
  paper: "Kim et al. 2023, RoAST: Robustifying Language Models via Adversarial Perturbation with Selective Training",
  cost: { gpu: "3.6", cpu: "2.8" },
  options: optionsSchema,
  create: createRoast,
});
