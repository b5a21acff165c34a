import { z } from "zod";
import { getPretrainedParameterNames, isPoolerParameter } from "../models/index.js";
import { sumOverTensors, type Weights } from "../nn/index.js";
import { type Device, keep, mseLoss, scope, type Tensor, tensor } from "../tensor/index.js";
import type { TrainingContext } from "../train/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";

/** Added under the square root, so that the gradient at the pre-trained weights is finite. */
const epsilon = 1e-10;

export const ptwd = defineMethod({
  name: "ptwd",
  summary: "pre-trained weight decay: a penalty on the distance to the pre-trained weights",
  paper: "Chelba and Acero, 2004; RIFT section 3.2 (iii)",
  cost: { gpu: "1.5", cpu: "1.5" },
  options: z.strictObject({
    lambda: nonnegativeSchema
      .default(0.01)
      .describe("weight of the distance; the paper uses 0.01 on IMDB and 0.005 on SNLI"),
    newPooler: z
      .enum(["excluded", "included"])
      .default("excluded")
      .describe(
        "a pooler that the checkpoint lacks (RoBERTa): no part of the distance, or its distance to another random " +
          "pooler (RIFT's code)",
      ),
  }),
  create: ({ lambda, newPooler }) => {
    let names: readonly string[] = [];
    let pretrained: Weights = new Map();
    let randomPooler = new Map<string, Tensor>();
    return {
      name: "ptwd",
      traits: { needsAllWeights: "pulls all weights of the encoder" },
      checkCompatibility: (_innerMethods, { model }) =>
        newPooler === "excluded" || [...model.weights.keys()].some(isPoolerParameter)
          ? null
          : "newPooler: included needs a model with a pooler. Set pooling: pooler, or leave newPooler out.",
      async prepare(training) {
        if (newPooler === "included") randomPooler = sampleNewPooler(training);
        names = [...getPretrainedParameterNames(training.job.model), ...randomPooler.keys()];
        pretrained = new Map([...training.getPretrainedWeights(), ...randomPooler]);
      },
      state: () => ({ buffers: new Map([...randomPooler].map(([name, value]) => [`ptwd.${name}`, value])) }),
      losses({ training }, next) {
        // Inner losses come first, because their order decides how gradients are summed.
        const losses = new Map(next());
        const { device } = training.job.deviceConfig;
        const select = (source: Weights): Tensor[] => names.map((name) => source.get(name) as Tensor);
        const distance = computeWeightDistance(device, select(training.parameters), select(pretrained));
        return losses.set("distance", distance.mul(lambda));
      },
    };
  },
});

/** The standard deviation with which transformers initializes dense layers. */
const initStd = 0.02;

/** Samples other initial pooler parameters. The released code of RIFT has a second, random pooler. */
function sampleNewPooler({ job, rng }: Pick<TrainingContext, "job" | "rng">): Map<string, Tensor> {
  const { weights, newlyInitialized } = job.model;
  const sample = (name: string, { shape, numel }: Tensor): Tensor => {
    const stream = rng.fork("ptwd", "pooler", name);
    const std = name.endsWith(".bias") ? 0 : initStd;
    const values = Float32Array.from({ length: numel }, () => std * stream.normal());
    return scope(() => keep(tensor(values, shape, { device: job.deviceConfig.device })));
  };
  return new Map(
    [...weights]
      .filter(([name]) => isPoolerParameter(name) && newlyInitialized.includes(name))
      .map(([name, weight]) => [name, sample(name, weight)]),
  );
}

/** `reduction` code of libtorch's squared error. */
const sumReduction = 2;

/** sqrt(1e-10 + sum (theta - theta0)^2): the norm, not its square. */
export function computeWeightDistance(
  device: Device,
  weights: readonly Tensor[],
  pretrained: readonly Tensor[],
): Tensor {
  // The squared error saves only its two inputs for the gradient.
  return scope(() =>
    sumOverTensors(device, [weights, pretrained], (theta, theta0) => mseLoss(theta, theta0, sumReduction))
      .add(epsilon)
      .sqrt(),
  );
}
