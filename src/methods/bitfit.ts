import { z } from "zod";
import { isHeadParameter } from "../models/index.js";
import { defineMethod } from "./define-method.js";
import { listFrozenWeights } from "./trained-weights.js";

const isBias = (name: string): boolean => name.endsWith(".bias");

export const bitfit = defineMethod({
  name: "bitfit",
  summary: "trains only the biases and the head",
  paper: "Ben Zaken et al. 2022, BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Models",
  cost: { gpu: "0.7", cpu: "0.6" },
  options: z.strictObject({}),
  create: () => {
    let frozen: ReadonlySet<string> = new Set();
    return {
      name: "bitfit",
      traits: { exclusiveRoles: { training: "trains only the biases and the head" } },
      checkCompatibility(_innerMethods, { model: { weights, architecture }, methods }) {
        const other = methods.find(({ traits }) => traits?.exclusiveRoles?.selection && !traits.needsAllWeights);
        if (other) return `${other.name} selects among weights, but bitfit trains only biases. Remove one of them.`;
        return [...weights.keys()].some((name) => isBias(name) && !isHeadParameter(name))
          ? null
          : `this ${architecture.config.modelType} encoder has no biases. Use another method, such as lora.`;
      },
      async prepare({ job }) {
        frozen = listFrozenWeights(job.model, isBias);
      },
      state: () => ({ frozen }),
    };
  },
});
