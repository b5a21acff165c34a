import { dirname, join } from "node:path";
import { UserError } from "../base/errors.js";
import { createFolder, createFolderAtomic, writeFileAtomic } from "../base/files.js";
import { formatBytes } from "../base/format.js";
import { describeIncompatibility } from "../models/checkpoint/compatibility.js";
import { createTokenizerFiles, getTokenizerSource } from "../models/checkpoint/save-tokenizer.js";
import { getFamily, hashModelFolder, type Model, type TemperMetadata, toConfigJson } from "../models/index.js";
import { SUBWORD_TOKENIZER } from "../text/tokenizer.js";
import { exportGraph } from "./export-graph.js";
import { encodeOnnx, maxOnnxBytes, type OnnxGraph } from "./onnx-file.js";
import { quantizeGraph } from "./quantize.js";

export interface ExportedModel {
  readonly model: Uint8Array;
  /** The model with 8-bit weights, if requested. */
  readonly quantized: Uint8Array | null;
  /** All files, in the layout that transformers.js and Optimum read. */
  readonly files: readonly {
    readonly path: string;
    readonly content: Uint8Array | string;
  }[];
}

/** Exports a classifier. `version` names the program that wrote the file. */
export async function exportToOnnx(
  model: Model,
  options: { readonly quantize: boolean; readonly version: string },
): Promise<ExportedModel> {
  const { [SUBWORD_TOKENIZER]: pieces, ...readable } = await createTokenizerFiles(getTokenizerSource(model));
  const tokenizerFiles = "tokenizer.json" in readable ? readable : { ...readable, [SUBWORD_TOKENIZER]: pieces };
  const graph = exportGraph(model, model.weights);
  checkSize(graph);
  const encoded = encodeOnnx(graph, options.version);
  const quantized = options.quantize ? encodeOnnx(quantizeGraph(graph), options.version) : null;
  const { config } = model.architecture;
  const architectures = [`${getFamily(config).className}ForSequenceClassification`];
  const { tokenization, normalize, maxLength, task, labels } = model;
  const { head, pooling } = model.architecture;
  if (head === "masked-lm") throw new UserError(`${model.reference}: a masked language model cannot be exported.`);
  const temper: TemperMetadata = {
    ...{ format: 2, tokenization, head, pooling, maxLength, task, labels: [...labels] },
    ...(normalize && { normalize }),
    // An ONNX file has every head.
    note: describeIncompatibility({ ...model, architecture: { ...model.architecture, head: "hf" } }) ?? undefined,
    exportedFrom: { model: await hashModelFolder(model.folder), tokenizer: model.tokenizer.hash },
  };
  const json = toConfigJson(config, labels, architectures, { temper });
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
