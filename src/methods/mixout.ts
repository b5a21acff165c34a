import { z } from "zod";
import { getEncoderPart, getPretrainedParameterNames, type Model } from "../models/index.js";
import { mapElementwise, sampleMasks, type Weights } from "../nn/index.js";
import { type Device, lerp, scope, type Tensor } from "../tensor/index.js";
import { defineMethod } from "./define-method.js";

export const mixout = defineMethod({
  name: "mixout",
  summary: "resets each encoder element to its pre-trained value with probability p, in every training pass",
  paper: "Lee et al., ICLR 2020; RIFT section 3.2 (iv)",
  cost: { gpu: "1.8", cpu: "1.5" },
  options: z.strictObject({
    p: z.number().min(0).lt(1).default(0.6).describe("probability of the pre-trained value"),
    variant: z
      .enum(["paper", "code"])
      .default("paper")
      .describe(
        "paper: each element separately; code: as released by Lee et al., only matrices of linear layers, " +
          "all their rows together, with a gradient that is not divided by 1 - p",
      ),
  }),
  create: ({ p, variant }) => {
    let names: readonly string[] = [];
    let pretrained: Weights = new Map();
    return {
      name: "mixout",
      async prepare(training) {
        const { model } = training.job;
        names = getPretrainedParameterNames(model).filter((name) => variant === "paper" || isLinearWeight(model, name));
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
        const mixAll = variant === "paper" ? mixTensors : mixRowsTogether;
        const mixed = mixAll(device, select(weights), select(pretrained), p);
        return new Map([...weights, ...names.map((name, i): [string, Tensor] => [name, mixed[i]!])]);
      },
    };
  },
});

/** Returns true if a parameter is the matrix of a linear layer: [output, input]. */
function isLinearWeight({ weights }: Pick<Model, "weights">, name: string): boolean {
  return weights.get(name)?.shape.length === 2 && getEncoderPart(name) !== "embeddings";
}

/**
 * Mixes each matrix as the code of Lee et al. does: all rows have the same mask M, and the gradient
 * with respect to w is multiplied by M, not by M / (1 - p).
 */
export function mixRowsTogether(
  device: Device,
  current: readonly Tensor[],
  pretrained: readonly Tensor[],
  p: number,
): Tensor[] {
  const masks = sampleMasks(
    current.map(({ shape }) => [1, shape[1]!]),
    1 - p,
    device,
  );
  return current.map((w, i) => scope(() => mixWithRowMask(w, pretrained[i]!, masks[i]!, p)));
}

/** Mixes a matrix with a mask [1, input] of 0 and 1 / (1 - p). */
export function mixWithRowMask(current: Tensor, pretrained: Tensor, mask: Tensor, p: number): Tensor {
  const fixed = current.detach();
  // The second term is 0. It only has a gradient.
  return mix(fixed, pretrained, mask).add(current.sub(fixed).mul(mask.mul(1 - p)));
}

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
