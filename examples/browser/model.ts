import { Tokenizer } from "@huggingface/tokenizers";
import * as runtime from "onnxruntime-web/wasm";
import { softmax } from "../../src/base/softmax.js";
import { openOnnxClassifier } from "../../src/onnx/onnx-classifier.js";
import { padBatch } from "../../src/text/batch.js";
import type { Encoding } from "../../src/text/encoding.js";

/** Reads a file of a model folder; null if it is missing. */
export type ReadFile = (path: string) => Promise<Uint8Array<ArrayBuffer> | null>;

/** A classifier in the browser. */
export interface BrowserModel {
  readonly labels: readonly string[];
  /** The token of a hidden word. */
  readonly unknown: string;
  /** The logits of texts, row by row. */
  computeLogits(texts: readonly string[]): Promise<Float32Array[]>;
  classify(text: string): Promise<Float32Array>;
}

interface ModelConfig {
  readonly id2label: Readonly<Record<string, string>>;
  readonly pad_token_id?: number;
  readonly max_position_embeddings?: number;
  readonly temper?: { readonly maxLength?: number };
}

interface TokenizerSettings {
  readonly unk_token?: string | { readonly content: string };
  readonly model_max_length?: number;
}

/** Loads the folder that `temper export` wrote. The 8-bit file is used if there is no other. */
export async function loadBrowserModel(read: ReadFile): Promise<BrowserModel> {
  const config = (await readJson(read, "config.json")) as ModelConfig;
  const settings = (await readJson(read, "tokenizer_config.json")) as TokenizerSettings;
  const tokenizer = new Tokenizer((await readJson(read, "tokenizer.json")) as object, settings);
  const file = (await read("onnx/model.onnx")) ?? (await read("onnx/model_quantized.onnx"));
  if (file === null) throw new Error("Expected onnx/model.onnx. Pass the folder that temper export has written.");
  const labels = Object.values(config.id2label);
  // More threads would need a page that is isolated from other origins.
  runtime.env.wasm.numThreads = 1;
  const padId = config.pad_token_id ?? 0;
  const classifier = await openOnnxClassifier(runtime, file, { name: "onnx/model.onnx", labels, padId, threads: 1 });
  const maxLength = config.temper?.maxLength ?? settings.model_max_length ?? config.max_position_embeddings ?? 512;
  const computeLogits = async (texts: readonly string[]): Promise<Float32Array[]> => {
    const encodings = texts.map((text) => encode(tokenizer, text, maxLength));
    const values = await classifier.computeLogits(padBatch(encodings, padId));
    return texts.map((_, i) => values.slice(i * labels.length, (i + 1) * labels.length));
  };
  const { unk_token: unknown = "[UNK]" } = settings;
  return {
    labels,
    unknown: typeof unknown === "string" ? unknown : unknown.content,
    computeLogits,
    classify: async (text) => softmax((await computeLogits([text]))[0]!),
  };
}

/** A text that is too long loses its last tokens, but not the special one at its end. */
function encode(tokenizer: Tokenizer, text: string, maxLength: number): Encoding {
  const { ids } = tokenizer.encode(text);
  const kept = ids.length > maxLength ? [...ids.slice(0, maxLength - 1), ids.at(-1)!] : ids;
  return {
    ids: Int32Array.from(kept),
    tokenTypeIds: new Int32Array(kept.length),
    truncated: kept.length < ids.length,
  };
}

async function readJson(read: ReadFile, path: string): Promise<unknown> {
  const bytes = await read(path);
  if (bytes === null) throw new Error(`Expected ${path}. Pass the folder that temper export has written.`);
  return JSON.parse(new TextDecoder().decode(bytes));
}
