import { dirname, join } from "node:path";
import { UserError } from "../base/errors.js";
import { createFolder, createFolderAtomic, writeFileAtomic } from "../base/files.js";
import { formatBytes } from "../base/format.js";
import { createMetadata, describeIncompatibility } from "../models/checkpoint/save.js";
import { createTokenizerFiles, getTokenizerSource } from "../models/checkpoint/save-tokenizer.js";
import { forward, getFamily, hashModelFolder, type Model, toConfigJson } from "../models/index.js";
import { type InputLimits, paddingBias } from "../models/model-input.js";
import { evalMode, type Weights } from "../nn/index.js";
import { operator, scope, type Tensor, tensor } from "../tensor/index.js";
import { SUBWORD_TOKENIZER } from "../text/tokenizer.js";
import { GraphBuilder } from "./graph-builder.js";
import { encodeOnnx, maxOnnxBytes, type OnnxGraph, type OnnxValue } from "./onnx-file.js";
import { quantizeGraph } from "./quantize.js";
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

export interface ExportedModel {
  readonly model: Uint8Array;
  readonly quantized: Uint8Array | null;
  /** All files, in the layout that transformers.js and Optimum read. */
  readonly files: readonly {
    readonly path: string;
    readonly content: Uint8Array | string;
  }[];
}

export async function exportToOnnx(
  model: Model,
  options: { readonly quantize: boolean; readonly version: string; readonly votes?: boolean },
): Promise<ExportedModel> {
  const { [SUBWORD_TOKENIZER]: pieces, ...readable } = await createTokenizerFiles(getTokenizerSource(model));
  const tokenizerFiles = "tokenizer.json" in readable ? readable : { ...readable, [SUBWORD_TOKENIZER]: pieces };
  const graph = exportGraph(model, model.weights);
  checkSize(graph);
  const encoded = encodeOnnx(graph, options.version);
  const quantized = options.quantize ? encodeOnnx(quantizeGraph(graph), options.version) : null;
  const { config } = model.architecture;
  const architectures = [`${getFamily(config).className}ForSequenceClassification`];
  const temper = createMetadata(model, {
    ...(options.votes && { votes: true as const }),
    // An ONNX file has every head.
    note: describeIncompatibility({ ...model, architecture: { ...model.architecture, head: "hf" } }) ?? undefined,
    exportedFrom: { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash },
  });
  const json = toConfigJson(config, model.labels, architectures, { temper });
  return {
    model: encoded,
    quantized,
    files: [
      { path: "onnx/model.onnx", content: encoded },
      ...(quantized ? [{ path: "onnx/model_quantized.onnx", content: quantized }] : []),
      ...Object.entries(tokenizerFiles).map(([path, content]) => ({ path, content: `${JSON.stringify(content)}\n` })),
      { path: "config.json", content: `${JSON.stringify(json, null, 2)}\n` },
    ],
  };
}

function checkSize({ initializers }: OnnxGraph): void {
  const bytes = [...initializers.values()].reduce((sum, tensor) => sum + tensor.bytes.length, 0);
  if (bytes < maxOnnxBytes - (64 << 20)) return;
  throw new UserError(
    `The weights take ${formatBytes(bytes)}, but an ONNX file has at most ${formatBytes(maxOnnxBytes)}. ` +
      "Export a smaller model.",
  );
}

export async function writeExport(folder: string, { files }: ExportedModel): Promise<void> {
  await createFolderAtomic(folder, async (temporary) => {
    for (const { path, content } of files) {
      createFolder(dirname(join(temporary, path)), "write the exported model");
      await writeFileAtomic(join(temporary, path), content);
    }
  });
}
