import { z } from "zod";
import { symmetricKl } from "../nn/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";
import { computeTwoPassLoss } from "./two-pass-loss.js";

/** R-Drop: 1/2 (CE1 + CE2) + alpha * 1/2 (KL(p||q) + KL(q||p)) of two dropout passes. */
export const rDrop = defineMethod({
  name: "r-drop",
  summary: "penalizes the divergence between two dropout passes",
  paper: "Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks",
  options: z.strictObject({
    alpha: nonnegativeSchema.default(1).describe("weight of the consistency term; ROSE searches 0.1, 0.5 and 1"),
  }),
  create: ({ alpha }) => ({
    name: "r-drop",
    traits: { usesTwoPasses: true },
    losses(context, next) {
      const [first, second] = context.passTwice("clean", "again");
      // The terms of inner methods stay. Their task loss of one pass is replaced by that of both
      // passes.
      return new Map([
        ...next(),
        ["task", computeTwoPassLoss(context)],
        ["consistency", symmetricKl(first.logits, second.logits).mul(0.5 * alpha)],
      ]);
    },
  }),
});
