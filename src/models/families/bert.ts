import { z } from "zod";
import { createBertCore, createPooler } from "./blocks.js";
import { absolutePositions, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily } from "./family.js";
import { createMaskedLmHead, linearHead } from "./shared-heads.js";

const prefix = "bert.";

export const bertLmNames = {
  decoder: "cls.predictions.decoder",
  bias: "cls.predictions.bias",
  dense: "cls.predictions.transform.dense",
  norm: "cls.predictions.transform.LayerNorm",
};

export const bert = defineFamily({
  modelType: "bert",
  className: "Bert",
  ...createBertCore(prefix),
  configSchema: z.looseObject({ ...transformerFields, position_embedding_type: absolutePositions }),
  readConfig: (raw) => ({
    ...readTransformerFields(raw, 0),
    positionOffset: 0,
    maxLength: raw.max_position_embeddings,
  }),
  pooler: createPooler(prefix),
  classification: linearHead,
  maskedLm: (config) => createMaskedLmHead(bertLmNames, config, config.hiddenSize, config.activation),
});
