import { createRobertaFamily } from "./roberta.js";

/** XLM-RoBERTa (Conneau et al. 2020): RoBERTa in 100 languages. */
export const xlmRoberta = createRobertaFamily({
  modelType: "xlm-roberta",
  className: "XLMRoberta",
  vocabSize: 30522,
});
