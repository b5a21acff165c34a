import { z } from "zod";
import type { Weights } from "../nn/index.js";
import { scope, type Tensor, where } from "../tensor/index.js";
import { drawKept } from "./kept.js";
import { defineMethod } from "./method.js";
import { encoderNames } from "./pretrained.js";

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
        names = encoderNames(run.model);
        before = run.pretrained();
      },
      weights(pass, next) {
        const weights = next();
        // Mixing with p = 0 would change nothing but the order in which a weight's gradients are summed.
        if (!pass.mode.training || p === 0) return weights;
        // A stream a pass: however often its weights are asked for, they are mixed the same.
        pass.step.random(pass.name, "mixout");
        const mixed = new Map(weights);
        for (const name of names) {
          const current = weights.get(name) as Tensor;
          mixed.set(
            name,
            scope(() => mix(current, before.get(name) as Tensor, drawKept(current, 1 - p), p)),
          );
        }
        return mixed;
      },
    };
  },
});

/** ((1 - M) u + M w - p u) / (1 - p): its mean over masks is w. The gradient reaches w where M is 1, times 1 / (1 - p). */
export function mix(current: Tensor, before: Tensor, mask: Tensor, p: number): Tensor {
  return where(mask, current, before)
    .sub(before.mul(p))
    .div(1 - p);
}
