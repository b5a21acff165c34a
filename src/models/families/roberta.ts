import { z } from "zod";
import { denseWithActivation, layerNorm } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import type { Packing } from "../packing.js";
import {
  addBertEmbeddings,
  addBertLayers,
  applyTwoLayerHead,
  bertLayerPattern,
  bertProjections,
  createPooler,
  embedLikeBert,
  embedTokensLikeBert,
  encodeLikeBert,
  getTwoLayerHeadShapes,
  type LearnedPositions,
  listBertAttentions,
  ShapeList,
} from "./blocks.js";
import { absolutePositions, count, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig, type EncoderFamily, type MaskedLmHead } from "./family.js";

interface RobertaConfig extends EncoderConfig, LearnedPositions {}

const prefix = "roberta.";

/** The head of RoBERTa's masked language model. MPNet has the same. */
export function createRobertaMaskedLm({ hiddenSize, layerNormEps }: EncoderConfig): MaskedLmHead {
  return {
    decoder: "lm_head.decoder",
    bias: "lm_head.bias",
    shapes: new ShapeList().addDense("lm_head.dense", hiddenSize, hiddenSize).addNorm("lm_head.layer_norm", hiddenSize)
      .shapes,
    transform: (weights, hidden) =>
      layerNorm(
        weights,
        "lm_head.layer_norm",
        denseWithActivation(weights, "lm_head.dense", hidden, "gelu"),
        layerNormEps,
      ),
  };
}

/** Creates a family that computes what RoBERTa computes. */
export function createRobertaFamily(names: {
  readonly modelType: string;
  readonly className: string;
  readonly vocabSize: number;
}): EncoderFamily {
  return defineFamily({
    modelType: names.modelType,
    className: names.className,
    prefix,
    wordEmbeddings: `${prefix}embeddings.word_embeddings`,
    layerPattern: bertLayerPattern,
    configSchema: z.looseObject({
      ...transformerFields,
      vocab_size: count.default(names.vocabSize),
      position_embedding_type: absolutePositions,
    }),
    readConfig: (raw) => {
      const fields = readTransformerFields(raw, 1);
      const positionOffset = fields.padTokenId + 1;
      return { ...fields, positionOffset, maxLength: fields.maxPositionEmbeddings - positionOffset };
    },
    getShapes: (config: RobertaConfig) =>
      addBertLayers(addBertEmbeddings(new ShapeList(prefix), config), config).shapes,
    projections: bertProjections,
    listAttentions: (config) => listBertAttentions(config, prefix),
    embed: (config, weights, input, mode) => embedLikeBert(config, weights, `${prefix}embeddings`, input, mode),
    embedTokens: (config, weights, tokens, mode) =>
      embedTokensLikeBert(config, weights, `${prefix}embeddings`, tokens, mode),
    prepare: (_config, _weights, _embeddingOutput, attentionBias): Tensor | Packing | null => attentionBias,
    packable: true,
    encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) =>
      encodeLikeBert(config, weights, `${prefix}encoder.layer.${layer}`, hidden, state, mode, firstOnly),
    // No head of transformers uses it, so most checkpoints do not have it.
    pooler: createPooler(prefix),
    classification: {
      pooling: () => "cls",
      getShapes: (config, numLabels) => getTwoLayerHeadShapes(config, numLabels),
      apply: (config, weights, pooled, mode) =>
        applyTwoLayerHead(
          weights,
          pooled,
          config.classifierDropout ?? config.hiddenDropout,
          (hidden) => hidden.tanh(),
          mode,
        ),
    },
    maskedLm: (config) => createRobertaMaskedLm(config),
  });
}

/** RoBERTa (Liu et al. 2019). */
export const roberta = createRobertaFamily({ modelType: "roberta", className: "Roberta", vocabSize: 50265 });
