import { z } from "zod";
import { flattenTensors, groupForDevice, unflattenTensors, type Weights } from "../nn/index.js";
import { lerp, scope, type Tensor } from "../tensor/index.js";
import { defineMethod } from "./define-method.js";
import { sampleMask } from "./masks.js";
import { getPretrainedParameterNames } from "./pretrained.js";

/** Mixout: in every training pass each element of the encoder is its pre-trained value with probability p. */
export const mixout = defineMethod({
  name: "mixout",
  summary: "every element of the encoder falls back to its pre-trained value with probability p, in each training pass",
  paper: "Lee et al., ICLR 2020; RIFT section 3.2 (iv)",
  options: z.strictObject({
    p: z.number().min(0).lt(1).default(0.6).describe("probability of the pre-trained value"),
  }),
  create: ({ p }) => {
    let names: readonly string[] = [];
    let before: Weights = new Map();
    return {
      name: "mixout",
      async prepare(run) {
        names = getPretrainedParameterNames(run.model);
        before = run.getPretrainedWeights();
      },
      weights(pass, next) {
        const weights = next();
        // Mixing with p = 0 would change nothing but the order in which a weight's gradients are summed.
        if (!pass.mode.training || p === 0) return weights;
        // A stream a pass: however often its weights are asked for, they are mixed the same.
        pass.context.enterRandomStream(pass.name, "mixout");
        const mixed = new Map(weights);
        for (const group of groupForDevice(pass.context.run.device, names)) {
          const of = (source: Weights): Tensor[] => group.map((name) => source.get(name) as Tensor);
          const pieces = mixTensors(of(weights), of(before), p);
          for (const [i, name] of group.entries()) mixed.set(name, pieces[i] as Tensor);
        }
        return mixed;
      },
    };
  },
});

/** Each tensor mixed with its pre-trained values, masks drawn from the device's generator. */
export function mixTensors(current: readonly Tensor[], before: readonly Tensor[], p: number): Tensor[] {
  return scope(() => {
    const all = flattenTensors(current);
    const [kept] = sampleMask([all.shape], 1 - p, all.device) as [Tensor];
    return unflattenTensors(
      mix(all, flattenTensors(before), kept),
      current.map(({ shape }) => shape),
    );
  });
}

/**
 * ((1 - M) u + M w - p u) / (1 - p), which is u + K (w - u) with K = M / (1 - p), 0 or 1 / (1 - p): its mean over masks is w. The
 * gradient reaches w times K.
 */
export function mix(current: Tensor, before: Tensor, kept: Tensor): Tensor {
  return lerp(before, current, kept);
}
