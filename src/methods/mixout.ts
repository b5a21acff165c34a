import { z } from "zod";
import { getPretrainedParameterNames } from "../models/index.js";
import { mapElementwise, sampleMasks, type Weights } from "../nn/index.js";
import { type Device, lerp, type Tensor } from "../tensor/index.js";
import { defineMethod } from "./define-method.js";

export const mixout = defineMethod({
  name: "mixout",
  summary: "resets each encoder element to its pre-trained value with probability p, in every training pass",
  paper: "Lee et al., ICLR 2020; RIFT section 3.2 (iv)",
  cost: { gpu: "1.8", cpu: "1.5" },
  options: z.strictObject({
    p: z.number().min(0).lt(1).default(0.6).describe("probability of the pre-trained value"),
  }),
  create: ({ p }) => {
    let names: readonly string[] = [];
    let pretrained: Weights = new Map();
    return {
      name: "mixout",
      async prepare(training) {
        names = getPretrainedParameterNames(training.job.model);
        pretrained = training.getPretrainedWeights();
      },
      weights(pass, next) {
        const weights = next();
        // p = 0 would only change the order in which the gradients of a weight are summed.
        if (!pass.mode.training || p === 0) return weights;
        // The stream depends on the pass, so repeated calls mix the same elements.
        pass.context.enterRandomStream(pass.name, "mixout");
        const { device } = pass.context.training.job.deviceConfig;
        const select = (source: Weights): Tensor[] => names.map((name) => source.get(name) as Tensor);
        const mixed = mixTensors(device, select(weights), select(pretrained), p);
        return new Map([...weights, ...names.map((name, i): [string, Tensor] => [name, mixed[i]!])]);
      },
    };
  },
});

/** Mixes each tensor with its pre-trained values. The masks come from the device's generator. */
export function mixTensors(
  device: Device,
  current: readonly Tensor[],
  pretrained: readonly Tensor[],
  p: number,
): Tensor[] {
  return mapElementwise(device, [current, pretrained], (w, u) =>
    mix(w, u, sampleMasks([w.shape], 1 - p, w.device)[0] as Tensor),
  );
}

/**
 * ((1 - M) u + M w - p u) / (1 - p) = u + K (w - u) with K = M / (1 - p), which is 0 or 1 / (1 -
 * p). The mean over masks is w. The gradient with respect to w is multiplied by K.
 */
export function mix(current: Tensor, pretrained: Tensor, mask: Tensor): Tensor {
  return lerp(pretrained, current, mask);
}
