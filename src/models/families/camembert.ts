import { createRobertaFamily } from "./roberta.js";

/** CamemBERT (Martin et al. 2020): RoBERTa in French. */
export const camembert = createRobertaFamily({ modelType: "camembert", className: "Camembert", vocabSize: 30522 });
