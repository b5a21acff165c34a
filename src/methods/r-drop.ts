import { z } from "zod";
import { symmetricKl } from "../nn/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";
import { computeTwoPassLoss } from "./two-pass-loss.js";

/**
 * R-Drop, eq. 4: CE1 + CE2 + alpha/2 (KL(p||q) + KL(q||p)) of two dropout passes. Temper computes
 * half of it, so that the cross-entropy has the scale of every other method. With `reduction: sum`
 * it is R-Drop's code for RoBERTa, 1/2 CE1 + alpha/2 sum(KL(p||q) + KL(q||p)), times two: the
 * cross-entropy of the first pass only, and the divergence summed over the batch.
 */
export const rDrop = defineMethod({
  name: "r-drop",
  summary: "penalizes the divergence between two dropout passes",
  paper: "Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks",
  cost: { gpu: "1.6", cpu: "1.9" },
  options: z.strictObject({
    alpha: nonnegativeSchema.default(1).describe("weight of the consistency term; ROSE searches 0.1, 0.5 and 1"),
    reduction: z
      .enum(["mean", "sum"])
      .default("mean")
      .describe(
        "consistency term: mean over the batch (paper), or sum over the batch, with the cross-entropy of the first " +
          "pass only (R-Drop's RoBERTa code)",
      ),
  }),
  create: ({ alpha, reduction }) => ({
    name: "r-drop",
    traits: { usesTwoPasses: true },
    losses(context, next) {
      const [first, second] = context.passTwice("clean", "again");
      const weight = reduction === "mean" ? alpha / 4 : alpha * context.batch.batchSize;
      const both = computeTwoPassLoss(context);
      // The terms of inner methods stay. Their task loss is replaced.
      return new Map([
        ...next(),
        ["task", reduction === "mean" ? both : context.training.taskLoss(first.logits, context.batch.labels)],
        ["consistency", symmetricKl(first.logits, second.logits).mul(weight)],
      ]);
    },
  }),
});
