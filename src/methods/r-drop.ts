import { z } from "zod";
import { symmetricKl } from "../nn/index.js";
import { defineMethod } from "./define-method.js";
import { computeTwoPassLoss } from "./two-pass-loss.js";

/** R-Drop: 1/2 (CE1 + CE2) + alpha * 1/2 (KL(p||q) + KL(q||p)) of two dropout passes. */
export const rDrop = defineMethod({
  name: "r-drop",
  summary: "two dropout passes that must agree",
  paper: "Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks",
  options: z.strictObject({
    alpha: z
      .number()
      .nonnegative()
      .default(1)
      .describe("weight of the consistency term (ROSE searches 0.1, 0.5 and 1)"),
  }),
  create: ({ alpha }) => ({
    name: "r-drop",
    usesTwoPasses: true,
    losses(step, next) {
      const [first, second] = step.passTwice("clean", "again");
      // The terms of methods beneath stay; their task term, of one pass, gives way to that of both.
      return new Map([
        ...next(),
        ["task", computeTwoPassLoss(step)],
        ["consistency", symmetricKl(first.logits, second.logits).mul(0.5 * alpha)],
      ]);
    },
  }),
});
