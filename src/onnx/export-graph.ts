import { getFamily } from "../models/families/index.js";
import { forward, type Model } from "../models/index.js";
import { type InputLimits, paddingBias } from "../models/model-input.js";
import { evalMode, type Weights } from "../nn/index.js";
import { operator, scope, type Tensor, tensor } from "../tensor/index.js";
import { GraphBuilder } from "./graph-builder.js";
import type { OnnxGraph, OnnxValue } from "./onnx-file.js";
import type { BatchShape } from "./size.js";
import { trace } from "./trace.js";
import { translateTrace } from "./translate.js";

/** Batches of different sizes that take the same path through the code of a model. */
function chooseShapes({ config }: Model["architecture"]): BatchShape[] {
  const needed = getFamily(config).uniformLength?.(config) ?? 2;
  // If no text is that long, all take the other path.
  const shortest = needed < config.maxLength ? needed : 2;
  const length = Math.min(config.maxLength, shortest + 14);
  const between = Math.max(shortest, length - 5);
  return [
    { batch: 2, length },
    { batch: 3, length },
    { batch: 2, length: length - 1 },
    { batch: 5, length: between },
  ];
}

const subtractFrom = operator<(input: Tensor, other: number, alpha: number) => Tensor>("rsub", "Scalar");

/** The attention bias of a mask as BERT computes it, which ONNX Runtime knows: (1 - mask) · bias. */
function createAttentionBias(mask: Tensor): Tensor {
  return subtractFrom(mask.unsqueeze(1).unsqueeze(2).to("float32"), 1, 1).mul(paddingBias);
}

/**
 * Records the forward function of a classifier as a graph: `input_ids`, `attention_mask` and, if
 * the model uses them, `token_type_ids` [batch, length] -> `logits` [batch, label]. The weights
 * must be float32 on the CPU.
 */
export function exportGraph({ architecture }: Pick<Model, "architecture">, weights: Weights): OnnxGraph {
  const { typeVocabSize = 0 }: InputLimits = architecture.config;
  const names = ["input_ids", "attention_mask", ...(typeVocabSize > 1 ? ["token_type_ids"] : [])];
  const inputs = names.map((name): OnnxValue => ({ name, type: "int64", shape: ["batch_size", "sequence_length"] }));
  return scope(() => {
    const createInputs = ({ batch, length }: BatchShape): Map<string, Tensor> =>
      new Map(names.map((name) => [name, tensor(new Int32Array(batch * length).fill(1), [batch, length])]));
    const traced = trace(chooseShapes(architecture), createInputs, (tensors) => {
      const attentionBias = createAttentionBias(tensors.get("attention_mask")!);
      const tokenTypeIds = tensors.get("token_type_ids") ?? null;
      const input = { inputIds: tensors.get("input_ids")!, attentionBias, tokenTypeIds };
      return forward(architecture, weights, input, evalMode).logits;
    });
    const graph = new GraphBuilder("input_ids");
    const logits = translateTrace(traced, weights, graph);
    return graph.build(
      inputs,
      { name: "logits", type: "float32", shape: ["batch_size", architecture.numLabels] },
      logits,
    );
  });
}
