import { z } from "zod";
import { noGrad } from "../tensor/index.js";
import { sumLosses } from "../train/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";

/** Flooding, eq. 2: |L - b| + b, as the sum L of the losses plus a term "flooding". */
export const flooding = defineMethod({
  name: "flooding",
  summary: "keeps the training loss near a flood level: below it, the gradient is reversed",
  paper: "Ishida et al. 2020, Do We Need Zero Training Loss After Achieving Zero Training Error?; Liu et al. 2022",
  cost: { gpu: "1.0", cpu: "1.0" },
  options: z.strictObject({
    level: nonnegativeSchema.default(0.1).describe("flood level b of the training loss; 0: no flooding"),
  }),
  create: ({ level }) => {
    const name = "flooding";
    return {
      name,
      traits: {
        requiresFullBatch: "the flood level is compared with the mean loss of the batch",
      },
      checkCompatibility(innerMethods, { methods }) {
        const outer = methods.slice(innerMethods.length + 1).find(({ traits }) => traits?.usesTwoPasses);
        return outer
          ? `${outer.name} replaces the task loss, so it would not be flooded. List flooding after ${outer.name}.`
          : null;
      },
      losses(_context, next) {
        const losses = next();
        // No loss is below 0.
        if (level === 0) return losses;
        const excess = sumLosses(losses).sub(level);
        // 1 if the loss is above the level, -1 if it is below.
        const sign = noGrad(() => excess.detach().sign());
        return new Map(losses).set(name, excess.mul(sign.sub(1)));
      },
    };
  },
});
