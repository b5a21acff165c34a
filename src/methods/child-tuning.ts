import { z } from "zod";
import { getLayerIndex } from "../models/index.js";
import { clipGradNorm_, crossEntropy, flattenTensors, mapWeights, maskRandomly_, mulAll_ } from "../nn/index.js";
import { free, keep, noGrad, scope, type Tensor, zeros, zerosLike } from "../tensor/index.js";
import type { BatchContext, MethodTraits, NamedTensors, TrainingContext, TrainingMethod } from "../train/index.js";
import { defineMethod, fractionSchema } from "./define-method.js";
import { computeQuantile } from "./quantile.js";

const traits: MethodTraits = {
  exclusiveRoles: { selection: "decides which parameters are updated" },
  needsAllWeights: "selects among all weights of the layers",
};

const getLayerParameters = ({ job }: TrainingContext): NamedTensors =>
  new Map([...job.model.weights].filter(([name]) => getLayerIndex(name) !== null));

/** The diagonal of the Fisher information: the mean over batches of the squared, clipped gradient. */
export async function computeFisherDiagonal(
  training: TrainingContext,
  parameters: NamedTensors,
): Promise<Map<string, Tensor>> {
  const fisher = noGrad(() => mapWeights(parameters, (tensor) => keep(zerosLike(tensor))));
  const { maxGradNorm } = training.job.settings;
  const addSquares = (context: BatchContext): void => {
    const loss = crossEntropy(context.pass("clean").logits, context.batch.labels);
    const gradients = context.computeGradients(loss, parameters);
    noGrad(() => {
      for (const [name, gradient] of gradients) {
        if (maxGradNorm !== null) clipGradNorm_([gradient], maxGradNorm);
        fisher.get(name)?.add_(gradient.square());
      }
    });
  };
  await training.averageOverBatches(fisher, addSquares, "Fisher information");
  return fisher;
}

function selectLargest(values: NamedTensors, fraction: number): Map<string, Tensor> {
  return scope(() => {
    const threshold = computeQuantile(flattenTensors([...values.values()]), 1 - fraction);
    return mapWeights(values, (tensor) => tensor.ge(threshold));
  });
}

/** Child-Tuning_D: a fixed mask on every gradient. Weight decay applies to all elements. */
function createChildTuningD(updateRatio: number): TrainingMethod {
  let masks = new Map<string, Tensor>();
  return {
    name: "child-tuning",
    traits,
    async prepare(training) {
      const parameters = getLayerParameters(training);
      if (training.restoredBuffers) {
        // The trainer restores the masks, so the pass over the data is not repeated.
        const { device } = training.job.deviceConfig;
        masks = keep(mapWeights(parameters, ({ shape }) => zeros(shape, { dtype: "bool", device })));
        return;
      }
      const fisher = await computeFisherDiagonal(training, parameters);
      masks = noGrad(() => keep(selectLargest(fisher, updateRatio)));
      free(fisher);
    },
    state: () => ({ buffers: new Map([...masks].map(([name, mask]) => [`child-tuning.mask.${name}`, mask])) }),
    transformUpdates(_step, next) {
      const updates = next();
      const masked = [...masks].filter(([name]) => updates.has(name));
      const gradients = masked.map(([name]) => updates.get(name)!.gradient);
      mulAll_(
        gradients,
        masked.map(([, mask]) => mask),
      );
      return updates;
    },
  };
}

/** Child-Tuning_F: a new random mask on every gradient, scaled to keep the expectation. */
function createChildTuningF(updateRatio: number): TrainingMethod {
  return {
    name: "child-tuning",
    traits,
    transformUpdates(step, next) {
      const updates = next();
      const { model, deviceConfig } = step.training.job;
      step.enterRandomStream("child-tuning");
      const gradients = [...model.weights.keys()].flatMap((name) => updates.get(name)?.gradient ?? []);
      maskRandomly_(deviceConfig.device, gradients, updateRatio);
      return updates;
    },
  };
}

export const childTuning = defineMethod({
  name: "child-tuning",
  summary: "updates only a child network: the elements with the largest Fisher information (D) or random ones (F)",
  paper: "Xu et al. 2021, Raise a Child in Large Language Model",
  cost: { gpu: "1.3 (F), 1.2 (D)", cpu: "1.2 (F), 1.0 (D)" },
  options: z.strictObject({
    variant: z
      .enum(["D", "F"])
      .default("D")
      .describe("D: chosen once by a pass over the training data; F: sampled at every step"),
    updateRatio: fractionSchema.default(0.3).describe("fraction of elements to update"),
  }),
  create: ({ variant, updateRatio }) =>
    variant === "D" ? createChildTuningD(updateRatio) : createChildTuningF(updateRatio),
});
