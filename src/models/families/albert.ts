import { z } from "zod";
import { dense, denseWithActivation, type ForwardMode, type Weights } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import type { Packing } from "../packing.js";
import {
  addAndNormalize,
  addBertEmbeddings,
  bertProjections,
  createPooler,
  embedLikeBert,
  type LearnedPositions,
  ShapeList,
  selectFirst,
  selfAttend,
} from "./blocks.js";
import {
  absolutePositions,
  activation,
  count,
  probability,
  readTransformerFields,
  transformerFields,
} from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";
import { createMaskedLmHead, linearHead } from "./shared-heads.js";

interface AlbertConfig extends EncoderConfig, LearnedPositions {
  /** The layers are divided into groups, and the layers of a group have the same weights. */
  readonly numHiddenGroups: number;
  readonly innerGroupNum: number;
}

const prefix = "albert.";

const lmNames = {
  decoder: "predictions.decoder",
  bias: "predictions.bias",
  dense: "predictions.dense",
  norm: "predictions.LayerNorm",
};

const getBlockName = (group: number, block: number): string =>
  `${prefix}encoder.albert_layer_groups.${group}.albert_layers.${block}`;

function listBlocks({ numHiddenGroups, innerGroupNum }: AlbertConfig): string[] {
  return Array.from({ length: numHiddenGroups * innerGroupNum }, (_, i) =>
    getBlockName(Math.floor(i / innerGroupNum), i % innerGroupNum),
  );
}

function encodeBlock(
  config: AlbertConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  mask: Tensor | Packing | null,
  mode: ForwardMode,
  firstOnly: boolean,
): Tensor {
  const select = (tensor: Tensor): Tensor => selectFirst(tensor, firstOnly, mask);
  const context = selfAttend(config, weights, `${name}.attention`, bertProjections, hidden, mask, mode, firstOnly);
  const attention = { dense: `${name}.attention.dense`, norm: `${name}.attention.LayerNorm` };
  const attended = addAndNormalize(config, weights, attention, context, select(hidden), mode);
  const intermediate = denseWithActivation(weights, `${name}.ffn`, attended, config.activation);
  // Unlike BERT, there is no dropout after the feed-forward network.
  const output = { dense: `${name}.ffn_output`, norm: `${name}.full_layer_layer_norm` };
  return addAndNormalize({ ...config, hiddenDropout: 0 }, weights, output, intermediate, attended, mode);
}

/** ALBERT (Lan et al. 2020): shared layers and factorized word embeddings. */
export const albert = defineFamily({
  modelType: "albert",
  className: "Albert",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: /\.albert_layer_groups\.(\d+)\./,
  configSchema: z.looseObject({
    ...transformerFields,
    vocab_size: count.default(30000),
    embedding_size: count.default(128),
    hidden_size: count.default(4096),
    num_hidden_groups: count.default(1),
    num_attention_heads: count.default(64),
    intermediate_size: count.default(16384),
    inner_group_num: count.default(1),
    hidden_act: activation.default("gelu_new"),
    hidden_dropout_prob: probability.default(0),
    attention_probs_dropout_prob: probability.default(0),
    classifier_dropout_prob: probability.default(0.1),
    position_embedding_type: absolutePositions,
  }),
  readConfig: (raw) => ({
    ...readTransformerFields(raw, 0),
    embeddingSize: raw.embedding_size,
    classifierDropout: raw.classifier_dropout_prob,
    positionOffset: 0,
    maxLength: raw.max_position_embeddings,
    numHiddenGroups: raw.num_hidden_groups,
    innerGroupNum: raw.inner_group_num,
  }),
  getShapes: (config: AlbertConfig) => {
    const { hiddenSize: hidden, intermediateSize: intermediate } = config;
    const embeddings = addBertEmbeddings(new ShapeList(prefix), config).addDense(
      "encoder.embedding_hidden_mapping_in",
      hidden,
      config.embeddingSize,
    ).shapes;
    const list = new ShapeList();
    for (const name of listBlocks(config)) {
      list.addNorm(`${name}.full_layer_layer_norm`, hidden);
      for (const part of [...bertProjections, "dense"]) list.addDense(`${name}.attention.${part}`, hidden, hidden);
      list.addNorm(`${name}.attention.LayerNorm`, hidden);
      list.addDense(`${name}.ffn`, intermediate, hidden).addDense(`${name}.ffn_output`, hidden, intermediate);
    }
    return new Map([...embeddings, ...list.shapes]);
  },
  projections: bertProjections,
  listAttentions: (config) => listBlocks(config).map((name) => `${name}.attention`),
  embed: (config, weights, input, mode) =>
    dense(
      weights,
      `${prefix}encoder.embedding_hidden_mapping_in`,
      embedLikeBert(config, weights, `${prefix}embeddings`, input, mode),
    ),
  packable: true,
  prepare: (_config, _weights, _embeddingOutput, attentionBias): Tensor | Packing | null => attentionBias,
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
    const group = Math.floor((layer * config.numHiddenGroups) / config.numHiddenLayers);
    let output = hidden;
    for (let block = 0; block < config.innerGroupNum; block++) {
      const first = firstOnly && block === config.innerGroupNum - 1;
      output = encodeBlock(config, weights, getBlockName(group, block), output, state, mode, first);
    }
    return output;
  },
  pooler: createPooler(prefix, "pooler"),
  classification: linearHead,
  maskedLm: (config) => createMaskedLmHead(lmNames, config, config.embeddingSize, config.activation),
});
