import { z } from "zod";
import { dense } from "../../nn/index.js";
import {
  addBertEmbeddings,
  addBertLayers,
  createBertCore,
  embedLikeBert,
  type LearnedPositions,
  ShapeList,
} from "./blocks.js";
import { absolutePositions, count, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";
import { createMaskedLmHead, createTwoLayerHead } from "./shared-heads.js";

const prefix = "electra.";

const lmNames = {
  decoder: "generator_lm_head",
  bias: "generator_lm_head.bias",
  dense: "generator_predictions.dense",
  norm: "generator_predictions.LayerNorm",
};

/** ELECTRA (Clark et al. 2020): BERT's layers on narrower word embeddings. */
export const electra = defineFamily({
  modelType: "electra",
  className: "Electra",
  ...createBertCore(prefix),
  configSchema: z.looseObject({
    ...transformerFields,
    embedding_size: count.default(128),
    hidden_size: count.default(256),
    num_attention_heads: count.default(4),
    intermediate_size: count.default(1024),
    position_embedding_type: absolutePositions,
  }),
  readConfig: (raw) => ({
    ...readTransformerFields(raw, 0),
    embeddingSize: raw.embedding_size,
    positionOffset: 0,
    maxLength: raw.max_position_embeddings,
  }),
  getShapes: (config: EncoderConfig & LearnedPositions) => {
    const list = addBertEmbeddings(new ShapeList(prefix), config);
    const { embeddingSize, hiddenSize } = config;
    if (embeddingSize !== hiddenSize) list.addDense("embeddings_project", hiddenSize, embeddingSize);
    return addBertLayers(list, config).shapes;
  },
  embedTokens: () => null,
  embed: (config, weights, input, mode) => {
    const sum = embedLikeBert(config, weights, `${prefix}embeddings`, input, mode);
    return config.embeddingSize === config.hiddenSize ? sum : dense(weights, `${prefix}embeddings_project`, sum);
  },
  pooler: null,
  classification: createTwoLayerHead("gelu"),
  // Only the generator was trained with this head. The discriminator detects replaced tokens.
  maskedLm: (config) => createMaskedLmHead(lmNames, config, config.embeddingSize, "gelu"),
});
