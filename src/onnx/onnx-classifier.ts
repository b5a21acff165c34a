import type { InferenceSession, Tensor as OnnxRuntimeTensor } from "onnxruntime-node";
import { getErrorMessage } from "../errors.js";
import { getErrorCode } from "../files.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";

type Runtime = typeof import("onnxruntime-node");

/** ONNX Runtime, or why there is none. */
export type FoundRuntime = { readonly runtime: Runtime } | { readonly problem: string };

/** Loads onnxruntime-node, which is an optional package. */
export async function findOnnxRuntime(): Promise<FoundRuntime> {
  try {
    return { runtime: await import("onnxruntime-node") };
  } catch (error) {
    const isMissing = getErrorCode(error) === "ERR_MODULE_NOT_FOUND";
    return {
      problem: isMissing
        ? "onnxruntime-node is not installed (npm install --ignore-scripts onnxruntime-node)"
        : `onnxruntime-node does not load: ${getErrorMessage(error).split("\n")[0]}`,
    };
  }
}

/** Texts per run of the session. */
const batchSize = 16;

/** Computes class probabilities of tokenized texts with ONNX Runtime, in order. */
export async function classifyWithOnnx(
  runtime: Runtime,
  model: Uint8Array,
  encodings: readonly Encoding[],
  padId: number,
  threads: number,
): Promise<Float32Array[]> {
  const session = await runtime.InferenceSession.create(model, { intraOpNumThreads: threads });
  try {
    const rows: Float32Array[] = [];
    for (let start = 0; start < encodings.length; start += batchSize)
      rows.push(...(await runBatch(runtime, session, encodings.slice(start, start + batchSize), padId)));
    return rows;
  } finally {
    await session.release();
  }
}

async function runBatch(
  { Tensor }: Runtime,
  session: InferenceSession,
  encodings: readonly Encoding[],
  padId: number,
): Promise<Float32Array[]> {
  const batch = padBatch(encodings, padId);
  const shape = [batch.batchSize, batch.sequenceLength];
  const toTensor = (values: ArrayLike<number>): OnnxRuntimeTensor =>
    new Tensor("int64", BigInt64Array.from(Array.from(values, BigInt)), shape);
  const named = { input_ids: batch.ids, attention_mask: batch.attentionMask, token_type_ids: batch.tokenTypeIds };
  const feeds = Object.fromEntries(
    Object.entries(named)
      .filter(([name]) => session.inputNames.includes(name))
      .map(([name, values]) => [name, toTensor(values)]),
  );
  const logits = (await session.run(feeds)).logits!.data as Float32Array;
  const width = logits.length / batch.batchSize;
  return encodings.map((_, row) => softmax(logits.subarray(row * width, (row + 1) * width)));
}

function softmax(logits: Float32Array): Float32Array {
  const largest = Math.max(...logits);
  const exponentials = Array.from(logits, (value) => Math.exp(value - largest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return Float32Array.from(exponentials, (value) => value / sum);
}
