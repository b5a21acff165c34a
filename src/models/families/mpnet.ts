import { z } from "zod";
import { denseWithActivation, dropout, embed, layerNorm } from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import { projectQkv } from "../attention-projections.js";
import {
  addAndNormalize,
  attendPadded,
  bertLayerPattern,
  createPooler,
  embedPositions,
  type LearnedPositions,
  ShapeList,
  selectFirst,
} from "./blocks.js";
import { count, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig } from "./family.js";
import { bucketLikeMpnet, computeDistances } from "./relative-positions.js";
import { createRobertaMaskedLm } from "./roberta.js";
import { createTwoLayerHead } from "./shared-heads.js";

const prefix = "mpnet.";
const projections = ["q", "k", "v"] as const;
/** MPNet's code fixes the ID of the padding token, whose positions are not used. */
const positionOffset = 2;

/** MPNet (Song et al. 2020): RoBERTa without token types, with a bias per relative position. */
export const mpnet = defineFamily({
  modelType: "mpnet",
  className: "MPNet",
  prefix,
  wordEmbeddings: `${prefix}embeddings.word_embeddings`,
  layerPattern: bertLayerPattern,
  configSchema: z.looseObject({
    ...transformerFields,
    vocab_size: count.default(30527),
    relative_attention_num_buckets: count
      .min(32, { error: "expected at least 32, the number of buckets that transformers uses" })
      .default(32),
  }),
  readConfig: (raw) => ({
    ...readTransformerFields(raw, 1),
    typeVocabSize: 0,
    positionOffset,
    maxLength: raw.max_position_embeddings - positionOffset,
    numBuckets: raw.relative_attention_num_buckets,
  }),
  getShapes: (config: EncoderConfig & LearnedPositions & { readonly numBuckets: number }) => {
    const { hiddenSize: hidden, intermediateSize: intermediate } = config;
    const list = new ShapeList(prefix)
      .add("embeddings.word_embeddings.weight", config.vocabSize, hidden)
      .add("embeddings.position_embeddings.weight", config.maxPositionEmbeddings, hidden)
      .addNorm("embeddings.LayerNorm", hidden);
    for (let i = 0; i < config.numHiddenLayers; i++) {
      const layer = `encoder.layer.${i}`;
      for (const part of [...projections, "o"]) list.addDense(`${layer}.attention.attn.${part}`, hidden, hidden);
      list.addNorm(`${layer}.attention.LayerNorm`, hidden);
      list.addDense(`${layer}.intermediate.dense`, intermediate, hidden);
      list.addDense(`${layer}.output.dense`, hidden, intermediate);
      list.addNorm(`${layer}.output.LayerNorm`, hidden);
    }
    return list.add("encoder.relative_attention_bias.weight", config.numBuckets, config.numAttentionHeads).shapes;
  },
  projections,
  listAttentions: ({ numHiddenLayers }) =>
    Array.from({ length: numHiddenLayers }, (_, i) => `${prefix}encoder.layer.${i}.attention.attn`),
  embed: (config, weights, input, mode) => {
    const positions = embedPositions(config, weights, `${prefix}embeddings.position_embeddings`, input);
    const sum = input.words.add(positions);
    const normalized = layerNorm(weights, `${prefix}embeddings.LayerNorm`, sum, config.layerNormEps);
    return dropout(normalized, config.hiddenDropout, mode);
  },
  /** The bias of all layers: [batch or 1, head, query, key]. */
  prepare: (_config, weights, embeddingOutput, attentionBias): Tensor => {
    const buckets = bucketLikeMpnet(computeDistances(embeddingOutput.size(1), embeddingOutput.device));
    const byPosition = embed(weights, `${prefix}encoder.relative_attention_bias`, buckets); // [query, key, head]
    const bias = byPosition.transpose(1, 2).transpose(0, 1).unsqueeze(0);
    return attentionBias ? bias.add(attentionBias.to(bias.dtype)) : bias.contiguous();
  },
  encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
    const name = `${prefix}encoder.layer.${layer}`;
    const residual = selectFirst(hidden, firstOnly);
    const bias = firstOnly ? state.narrow(2, 0, 1) : state;
    const qkv = projectQkv(weights, `${name}.attention.attn`, projections, hidden, (part) =>
      selectFirst(part, firstOnly),
    );
    const context = attendPadded(config, qkv, bias, mode);
    const attentionNames = { dense: `${name}.attention.attn.o`, norm: `${name}.attention.LayerNorm` };
    const attended = addAndNormalize(config, weights, attentionNames, context, residual, mode);
    const intermediate = denseWithActivation(weights, `${name}.intermediate.dense`, attended, config.activation);
    const outputNames = { dense: `${name}.output.dense`, norm: `${name}.output.LayerNorm` };
    return addAndNormalize(config, weights, outputNames, intermediate, attended, mode);
  },
  pooler: createPooler(prefix),
  classification: createTwoLayerHead("tanh", ({ hiddenDropout }) => hiddenDropout),
  maskedLm: (config) => createRobertaMaskedLm(config),
});
