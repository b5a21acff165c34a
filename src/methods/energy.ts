import { z } from "zod";
import { benignLabelSchema, findLabel } from "../attacks/goals.js";
import type { Tensor } from "../tensor/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";

const name = "energy";

/** The mean over the batch of max(0, margin - E)² for texts of the benign label, with E = -log sum exp z. */
export function computeEnergyPenalty(logits: Tensor, labels: Tensor, benign: number, margin: number): Tensor {
  const excess = logits.logsumexp([-1]).add(margin).relu(); // [batch]
  return excess.square().mul(labels.eq(benign).to(logits.dtype)).mean();
}

/** CE + lambda times the penalty. The card of Prompt Guard 2 names the penalty, but not its form. */
export const energy = defineMethod({
  name,
  summary: "penalizes confident benign predictions, so that a guard does not overfit to its benign texts",
  paper: "Meta 2025, Llama Prompt Guard 2 (model card); Liu et al. 2020, Energy-based Out-of-distribution Detection",
  cost: { gpu: "about 1.0", cpu: "about 1.0" },
  options: z.strictObject({
    benignLabel: benignLabelSchema,
    lambda: nonnegativeSchema.default(1).describe("weight of the penalty; 0: standard"),
    // Of two labels with opposite logits, the likelier one then has a probability of 0.84.
    margin: z.number().default(-1).describe("energy below which a benign prediction is penalized"),
  }),
  create: ({ benignLabel, lambda, margin }) => {
    let benign = 0;
    return {
      name,
      async prepare({ job }) {
        benign = findLabel(benignLabel, job.model.labels, `method ${name}: benignLabel`);
      },
      losses(context, next) {
        const losses = next();
        if (lambda === 0) return losses;
        const logits = context.pass("clean").logits.to("float32");
        return new Map(losses).set(
          name,
          computeEnergyPenalty(logits, context.batch.labels, benign, margin).mul(lambda),
        );
      },
    };
  },
});
