import { z } from "zod";
import { activate, dense, denseWithActivation, layerNorm } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import type { Packing } from "../packing.js";
import {
  addBertEmbeddings,
  addBertLayers,
  applyTwoLayerHead,
  bertLayerPattern,
  bertProjections,
  embedLikeBert,
  encodeLikeBert,
  getTwoLayerHeadShapes,
  type LearnedPositions,
  listBertAttentions,
  ShapeList,
} from "./blocks.js";
import { absolutePositions, count, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";

interface ElectraConfig extends EncoderConfig, LearnedPositions {}

const prefix = "electra.";

/** ELECTRA (Clark et al. 2020): BERT's layers on narrower word embeddings. */
export const electra = defineFamily({
  modelType: "electra",
  className: "Electra",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: bertLayerPattern,
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
  getShapes: (config: ElectraConfig) => {
    const list = addBertEmbeddings(new ShapeList(prefix), config);
    const { embeddingSize, hiddenSize } = config;
    if (embeddingSize !== hiddenSize) list.addDense("embeddings_project", hiddenSize, embeddingSize);
    return addBertLayers(list, config).shapes;
  },
  projections: bertProjections,
  listAttentions: (config) => listBertAttentions(config, prefix),
  embed: (config, weights, input, mode) => {
    const sum = embedLikeBert(config, weights, `${prefix}embeddings`, input, mode);
    return config.embeddingSize === config.hiddenSize ? sum : dense(weights, `${prefix}embeddings_project`, sum);
  },
  prepare: (_config, _weights, _embeddingOutput, attentionBias): Tensor | Packing | null => attentionBias,
  packable: true,
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) =>
    encodeLikeBert(config, weights, `${prefix}encoder.layer.${layer}`, hidden, state, mode, firstOnly),
  pooler: null,
  classification: {
    pooling: () => "cls",
    getShapes: (config, numLabels) => getTwoLayerHeadShapes(config, numLabels),
    apply: (config, weights, pooled, mode) =>
      applyTwoLayerHead(
        weights,
        pooled,
        config.classifierDropout ?? config.hiddenDropout,
        (hidden) => activate(hidden, "gelu"),
        mode,
      ),
  },
  // Only the generator was trained with this head. The discriminator detects replaced tokens.
  maskedLm: ({ hiddenSize, embeddingSize, layerNormEps }) => {
    const name = "generator_predictions";
    return {
      decoder: "generator_lm_head",
      bias: "generator_lm_head.bias",
      shapes: new ShapeList()
        .addDense(`${name}.dense`, embeddingSize, hiddenSize)
        .addNorm(`${name}.LayerNorm`, embeddingSize).shapes,
      transform: (weights, hidden) =>
        layerNorm(
          weights,
          `${name}.LayerNorm`,
          denseWithActivation(weights, `${name}.dense`, hidden, "gelu"),
          layerNormEps,
        ),
    };
  },
});
