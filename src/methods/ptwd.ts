import { z } from "zod";
import { getPretrainedParameterNames } from "../models/index.js";
import { sumOverTensors, type Weights } from "../nn/index.js";
import { type Device, mseLoss, scope, type Tensor } from "../tensor/index.js";
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
  }),
  create: ({ lambda }) => {
    let names: readonly string[] = [];
    let pretrained: Weights = new Map();
    return {
      name: "ptwd",
      traits: { needsAllWeights: "pulls all weights of the encoder" },
      async prepare(training) {
        names = getPretrainedParameterNames(training.job.model);
        pretrained = training.getPretrainedWeights();
      },
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
