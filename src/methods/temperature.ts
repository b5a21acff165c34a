import { z } from "zod";
import { isHeadParameter } from "../models/index.js";
import type { Tensor } from "../tensor/index.js";
import { defineMethod } from "./define-method.js";

/** Every loss sees z / T, the model with the last layer of its head divided by T (TTSO). */
export const temperature = defineMethod({
  name: "temperature",
  summary: "divides the logits by a temperature during training only (TTSO), which hides gradients from attacks",
  paper: "Raina et al. 2024, Extreme Miscalibration and the Illusion of Adversarial Robustness; Wang and Lin 2025",
  cost: { gpu: "1.3", cpu: "1.0" },
  options: z.strictObject({
    temperature: z.number().positive().default(10).describe("temperature T of the training losses; 1: standard"),
  }),
  create: ({ temperature: value }) => {
    let names: readonly string[] = [];
    return {
      name: "temperature",
      checkCompatibility(_innerMethods, { methods }) {
        const other = methods.find(({ traits }) => traits?.usesFixedLogits);
        return other ? `${other.name} ${other.traits?.usesFixedLogits}, which have no temperature.` : null;
      },
      async prepare({ job }) {
        const layer = [...job.model.weights.keys()]
          .filter((name) => isHeadParameter(name) && name.endsWith(".weight"))
          .at(-1)!
          .slice(0, -".weight".length);
        names = [`${layer}.weight`, `${layer}.bias`].filter((name) => job.model.weights.has(name));
      },
      weights(_pass, next) {
        const weights = next();
        if (value === 1) return weights;
        return new Map([
          ...weights,
          ...names.map((name): [string, Tensor] => [name, (weights.get(name) as Tensor).div(value)]),
        ]);
      },
    };
  },
});
