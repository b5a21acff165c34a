import { z } from "zod";
import { createBertCore, createPooler } from "./blocks.js";
import { absolutePositions, count, readTransformerFields, transformerFields } from "./config-fields.js";
import { defineFamily, type EncoderConfig, type EncoderFamily, type MaskedLmHead } from "./family.js";
import { createMaskedLmHead, createTwoLayerHead } from "./shared-heads.js";

const prefix = "roberta.";

const lmNames = {
  decoder: "lm_head.decoder",
  bias: "lm_head.bias",
  dense: "lm_head.dense",
  norm: "lm_head.layer_norm",
};

export function createRobertaMaskedLm(config: EncoderConfig): MaskedLmHead {
  return createMaskedLmHead(lmNames, config, config.hiddenSize, "gelu");
}

function createRobertaFamily(names: {
  readonly modelType: string;
  readonly className: string;
  readonly vocabSize: number;
}): EncoderFamily {
  return defineFamily({
    modelType: names.modelType,
    className: names.className,
    ...createBertCore(prefix),
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
    // No head of transformers uses it, so most checkpoints do not have it.
    pooler: createPooler(prefix),
    classification: createTwoLayerHead("tanh"),
    maskedLm: (config) => createRobertaMaskedLm(config),
  });
}

export const roberta = createRobertaFamily({ modelType: "roberta", className: "Roberta", vocabSize: 50265 });

/** CamemBERT (Martin et al. 2020): RoBERTa in French. */
export const camembert = createRobertaFamily({ modelType: "camembert", className: "Camembert", vocabSize: 30522 });

/** XLM-RoBERTa (Conneau et al. 2020): RoBERTa in 100 languages. */
export const xlmRoberta = createRobertaFamily({
  modelType: "xlm-roberta",
  className: "XLMRoberta",
  vocabSize: 30522,
});
