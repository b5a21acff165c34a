import { z } from "zod";
import { clipGradNorm_, crossEntropy, groupForDevice } from "../nn/index.js";
import {
  cat,
  foreachMul_,
  free,
  keep,
  noGrad,
  scope,
  runOnParallelStreams,
  type Tensor,
  zeros,
  zerosLike,
} from "../tensor/index.js";
import { gradientsOf, type NamedTensors, type TrainingContext, type TrainingMethod } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { sampleMask } from "./masks.js";
import { fractionSchema } from "./options.js";
import { computeQuantile } from "./quantile.js";

const exclusiveRoles = { selection: "decides which parameters an update changes" };

const getLayerParameters = (run: TrainingContext): NamedTensors =>
  new Map([...run.model.weights].filter(([name]) => name.includes(".layer.")));

/**
 * The diagonal of the Fisher information: the mean over batches of the squared gradient, each tensor's clipped by itself. One pass
 * over the training data.
 */
export async function computeFisherDiagonal(
  run: TrainingContext,
  parameters: NamedTensors,
): Promise<Map<string, Tensor>> {
  const fisher = noGrad(() => new Map([...parameters].map(([name, tensor]) => [name, keep(zerosLike(tensor))])));
  const { maxGradNorm: clip } = run.settings;
  let batches = 0;
  await run.forEachBatch((step) => {
    const gradients = gradientsOf(crossEntropy(step.pass("clean").logits, step.batch.labels), parameters);
    noGrad(() => {
      for (const [name, gradient] of gradients) {
        if (clip !== null) clipGradNorm_([gradient], clip);
        fisher.get(name)?.add_(gradient.square());
      }
    });
    batches++;
  }, "Fisher information");
  noGrad(() => {
    for (const value of fisher.values()) value.div_(batches);
  });
  return fisher;
}

/** True for the given share of all elements, those of the largest values: one threshold over all tensors. */
export function selectLargest(values: NamedTensors, part: number): Map<string, Tensor> {
  return scope(() => {
    const all = cat(
      [...values.values()].map((tensor) => tensor.reshape(-1)),
      0,
    );
    const threshold = computeQuantile(all, 1 - part);
    return new Map([...values].map(([name, tensor]) => [name, tensor.ge(threshold)]));
  });
}

/** Child-Tuning_D: a fixed mask on the gradient of each element; decay still reaches all of them. */
function createChildTuningD(part: number): TrainingMethod {
  let masks = new Map<string, Tensor>();
  const prefix = "child-tuning.mask.";
  return {
    name: "child-tuning",
    exclusiveRoles,
    async prepare(run) {
      const parameters = getLayerParameters(run);
      if (run.restoredBuffers) {
        // The checkpoint holds the mask: the pass over the data is not done again.
        const empty = [...parameters].map(([name, { shape }]): [string, Tensor] => [
          name,
          zeros(shape, { dtype: "bool", device: run.device }),
        ]);
        masks = keep(new Map(empty));
        return;
      }
      const fisher = await computeFisherDiagonal(run, parameters);
      masks = noGrad(() => keep(selectLargest(fisher, part)));
      free(fisher);
    },
    state: () => ({ buffers: new Map([...masks].map(([name, mask]) => [prefix + name, mask])) }),
    transformUpdates(update, next) {
      const selected = next();
      const tasks = [...masks].map(
        ([name, mask]) =>
          () =>
            void selected.get(name)?.gradient.mul_(mask),
      );
      runOnParallelStreams(update.run.device, tasks);
      return selected;
    },
  };
}

/** Child-Tuning_F: at every update a random share of the elements of every gradient, scaled up to the same expectation. */
function createChildTuningF(part: number): TrainingMethod {
  return {
    name: "child-tuning",
    exclusiveRoles,
    transformUpdates(update, next) {
      const selected = next();
      update.enterRandomStream("child-tuning");
      const gradients = [...update.run.model.weights.keys()].flatMap((name) => selected.get(name)?.gradient ?? []);
      for (const group of groupForDevice(update.run.device, gradients))
        scope(() => {
          const shapes = group.map(({ shape }) => shape);
          foreachMul_(group, sampleMask(shapes, part, update.run.device));
        });
      return selected;
    },
  };
}

export const childTuning = defineMethod({
  name: "child-tuning",
  summary:
    "updates only a child network: the elements of largest Fisher information (D), or new random ones each time (F)",
  paper: "Xu et al. 2021, Raise a Child in Large Language Model",
  options: z.strictObject({
    variant: z
      .enum(["D", "F"])
      .default("D")
      .describe("D: chosen once by a pass over the training data; F: drawn anew at every update"),
    updateRatio: fractionSchema.default(0.3).describe("share of the elements that are updated"),
  }),
  create: ({ variant, updateRatio: part }) => (variant === "D" ? createChildTuningD(part) : createChildTuningF(part)),
});
