import { z } from "zod";
import { countSchema } from "../base/validate.js";
import { createDeletionKernel, createTrainedDeletion } from "../proofs/certificates/index.js";
import type { Example } from "../tasks/example.js";
import { defineMethod } from "./define-method.js";

export const deletionNoise = defineMethod({
  name: "deletion-noise",
  summary: "trains on texts with randomly deleted words, for deletion smoothing",
  paper: "Huang et al., 2024 (CERT-ED); Huang et al., NeurIPS 2023 (RS-Del)",
  cost: { gpu: "0.5 (an epoch: 2.0)", cpu: "0.5 (an epoch: 1.8)" },
  options: z.strictObject({
    p: z.number().gt(0).lt(1).default(0.9).describe("probability that a word is deleted"),
    copies: countSchema.default(4).describe("noised copies of each text per epoch"),
  }),
  certificate: createTrainedDeletion,
  create: ({ p, copies }) => ({
    name: "deletion-noise",
    traits: { exclusiveRoles: { examples: "deletes words of each text" } },
    transformExamples(examples, { modifiableFields }, rng) {
      return examples.flatMap((example) => {
        const draw = createDeletionKernel(example.texts, p, modifiableFields);
        return Array.from({ length: copies }, (_, copy): Example => {
          const id = `${example.id}#${copy}`;
          return { ...example, id, texts: draw(rng.fork(id)) };
        });
      });
    },
  }),
});
