import { z } from "zod";
import { dense, denseWithActivation, dropout, layerNorm } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import type { Packing } from "../packing.js";
import {
  addBertEmbeddings,
  addBertLayers,
  bertLayerPattern,
  bertProjections,
  createPooler,
  embedLikeBert,
  embedTokensLikeBert,
  encodeLikeBert,
  type LearnedPositions,
  listBertAttentions,
  ShapeList,
} from "./blocks.js";
import { absolutePositions, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";

interface BertConfig extends EncoderConfig, LearnedPositions {}

const prefix = "bert.";

/** BERT (Devlin et al. 2019). */
export const bert = defineFamily({
  modelType: "bert",
  className: "Bert",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: bertLayerPattern,
  configSchema: z.looseObject({ ...transformerFields, position_embedding_type: absolutePositions }),
  readConfig: (raw) => ({
    ...readTransformerFields(raw, 0),
    positionOffset: 0,
    maxLength: raw.max_position_embeddings,
  }),
  getShapes: (config: BertConfig) => addBertLayers(addBertEmbeddings(new ShapeList(prefix), config), config).shapes,
  projections: bertProjections,
  listAttentions: (config) => listBertAttentions(config, prefix),
  embed: (config, weights, input, mode) => embedLikeBert(config, weights, `${prefix}embeddings`, input, mode),
  embedTokens: (config, weights, tokens, mode) =>
    embedTokensLikeBert(config, weights, `${prefix}embeddings`, tokens, mode),
  prepare: (_config, _weights, _embeddingOutput, attentionBias): Tensor | Packing | null => attentionBias,
  packable: true,
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) =>
    encodeLikeBert(config, weights, `${prefix}encoder.layer.${layer}`, hidden, state, mode, firstOnly),
  pooler: createPooler(prefix),
  classification: {
    pooling: () => "pooler",
    getShapes: ({ hiddenSize }, numLabels) => new ShapeList().addDense("classifier", numLabels, hiddenSize).shapes,
    apply: (config, weights, pooled, mode) =>
      dense(weights, "classifier", dropout(pooled, config.classifierDropout ?? config.hiddenDropout, mode)),
  },
  maskedLm: ({ hiddenSize, activation, layerNormEps }) => {
    const name = "cls.predictions.transform";
    return {
      decoder: "cls.predictions.decoder",
      bias: "cls.predictions.bias",
      shapes: new ShapeList().addDense(`${name}.dense`, hiddenSize, hiddenSize).addNorm(`${name}.LayerNorm`, hiddenSize)
        .shapes,
      transform: (weights, hidden) =>
        layerNorm(
          weights,
          `${name}.LayerNorm`,
          denseWithActivation(weights, `${name}.dense`, hidden, activation),
          layerNormEps,
        ),
    };
  },
});
