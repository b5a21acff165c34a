import { z } from "zod";
import { dense, denseWithActivation, dropout, layerNorm } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import type { Packing } from "../packing.js";
import {
  addAndNormalize,
  embedPositions,
  type LearnedPositions,
  ShapeList,
  selectFirst,
  selfAttend,
} from "./blocks.js";
import { activation, commonFields, count, padTokenId, probability, toActivation } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";
import { createMaskedLmHead, getHeadDropout } from "./shared-heads.js";

const prefix = "distilbert.";
const projections = ["q_lin", "k_lin", "v_lin"] as const;
const lmNames = {
  decoder: "vocab_projector",
  bias: "vocab_projector.bias",
  dense: "vocab_transform",
  norm: "vocab_layer_norm",
};
const getLayerName = (layer: number): string => `${prefix}transformer.layer.${layer}`;

/** DistilBERT (Sanh et al. 2019): BERT without token types, with half of the layers. */
export const distilbert = defineFamily({
  modelType: "distilbert",
  className: "DistilBert",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: /\.transformer\.layer\.(\d+)\./,
  configSchema: z.looseObject({
    ...commonFields,
    vocab_size: count.default(30522),
    max_position_embeddings: count.default(512),
    n_layers: count.default(6),
    n_heads: count.default(12),
    dim: count.default(768),
    hidden_dim: count.default(3072),
    dropout: probability.default(0.1),
    attention_dropout: probability.default(0.1),
    activation: activation.default("gelu"),
    seq_classif_dropout: probability.default(0.2),
    pad_token_id: padTokenId,
  }),
  readConfig: (raw) => ({
    vocabSize: raw.vocab_size,
    hiddenSize: raw.dim,
    embeddingSize: raw.dim,
    numHiddenLayers: raw.n_layers,
    numAttentionHeads: raw.n_heads,
    intermediateSize: raw.hidden_dim,
    activation: toActivation(raw.activation),
    maxPositionEmbeddings: raw.max_position_embeddings,
    positionOffset: 0,
    typeVocabSize: 0,
    maxLength: raw.max_position_embeddings,
    layerNormEps: 1e-12,
    hiddenDropout: raw.dropout,
    attentionDropout: raw.attention_dropout,
    classifierDropout: raw.seq_classif_dropout,
    padTokenId: raw.pad_token_id ?? 0,
  }),
  getShapes: (config: EncoderConfig & LearnedPositions) => {
    const { hiddenSize: hidden, intermediateSize: intermediate } = config;
    const list = new ShapeList()
      .add(`${prefix}embeddings.word_embeddings.weight`, config.vocabSize, hidden)
      .add(`${prefix}embeddings.position_embeddings.weight`, config.maxPositionEmbeddings, hidden)
      .addNorm(`${prefix}embeddings.LayerNorm`, hidden);
    for (let i = 0; i < config.numHiddenLayers; i++) {
      const layer = getLayerName(i);
      for (const part of [...projections, "out_lin"]) list.addDense(`${layer}.attention.${part}`, hidden, hidden);
      list.addNorm(`${layer}.sa_layer_norm`, hidden);
      list.addDense(`${layer}.ffn.lin1`, intermediate, hidden).addDense(`${layer}.ffn.lin2`, hidden, intermediate);
      list.addNorm(`${layer}.output_layer_norm`, hidden);
    }
    return list.shapes;
  },
  projections,
  listAttentions: ({ numHiddenLayers }) =>
    Array.from({ length: numHiddenLayers }, (_, i) => `${getLayerName(i)}.attention`),
  embed: (config, weights, input, mode) => {
    const positions = embedPositions(config, weights, `${prefix}embeddings.position_embeddings`, input);
    const sum = input.words.add(positions);
    const normalized = layerNorm(weights, `${prefix}embeddings.LayerNorm`, sum, config.layerNormEps);
    return dropout(normalized, config.hiddenDropout, mode);
  },
  packable: true,
  prepare: (_config, _weights, _embeddingOutput, attentionBias): Tensor | Packing | null => attentionBias,
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
    const name = getLayerName(layer);
    const select = (tensor: Tensor): Tensor => selectFirst(tensor, firstOnly, state);
    const context = selfAttend(config, weights, `${name}.attention`, projections, hidden, state, mode, firstOnly);
    // Unlike BERT, there is no dropout after the attention.
    const attention = { dense: `${name}.attention.out_lin`, norm: `${name}.sa_layer_norm` };
    const attended = addAndNormalize(
      { ...config, hiddenDropout: 0 },
      weights,
      attention,
      context,
      select(hidden),
      mode,
    );
    const intermediate = denseWithActivation(weights, `${name}.ffn.lin1`, attended, config.activation);
    const output = { dense: `${name}.ffn.lin2`, norm: `${name}.output_layer_norm` };
    return addAndNormalize(config, weights, output, intermediate, attended, mode);
  },
  pooler: null,
  classification: {
    pooling: () => "cls",
    getShapes: ({ hiddenSize }, numLabels) =>
      new ShapeList().addDense("pre_classifier", hiddenSize, hiddenSize).addDense("classifier", numLabels, hiddenSize)
        .shapes,
    apply: (config, weights, pooled, mode) => {
      const hidden = dense(weights, "pre_classifier", pooled).relu();
      return dense(weights, "classifier", dropout(hidden, getHeadDropout(config), mode));
    },
  },
  maskedLm: (config) => createMaskedLmHead(lmNames, config, config.hiddenSize, config.activation),
});
