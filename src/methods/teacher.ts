import { createHash } from "node:crypto";
import { cachedBytes } from "../cache.js";
import { featureOf, isHead, type Model, toInput } from "../models/index.js";
import { evaluating, type Weights } from "../nn/index.js";
import { allowsTf32, noGrad, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoded } from "../text/encoding.js";
import { lengthBatches, type Run } from "../train/index.js";

/** Texts of one cache entry. An entry's content is decided by its texts alone, so a longer run uses what a shorter one left. */
const chunkSize = 512;
/** What a trial computes instead, to time it. */
const [trialSize, trialChunks] = [32, 3];
const tokensPerBatch = { cpu: 4096, gpu: 65536 };

/**
 * The features of the training texts by the pre-trained model, without dropout: [text, hidden]. They never change, so they are
 * computed once in float32 and kept on disk across epochs and runs.
 */
export async function teacherFeatures(
  run: Pick<Run, "model" | "device" | "dataset" | "pretrained" | "trial" | "working">,
): Promise<Float32Array> {
  const { model, dataset } = run;
  const weights = run.pretrained();
  const size = model.shape.config.hiddenSize;
  const encoded = dataset.items.map((item) => item.encoded);
  const table = new Float32Array(encoded.length * size);
  const bytes = new Uint8Array(table.buffer);
  const teacher = [1, model.shape.feature, model.shape.config.raw, hashWeights(weights), allowsTf32()];
  const chunk = run.trial ? trialSize : chunkSize;
  const end = run.trial ? Math.min(trialChunks * chunk, encoded.length) : encoded.length;
  for (let start = 0; start < end; start += chunk) {
    const texts = encoded.slice(start, start + chunk);
    const make = async (): Promise<Uint8Array> => computeFeatures(run, weights, texts);
    bytes.set(run.trial ? await make() : await cachedBytes("teacher", [...teacher, hashTexts(texts)], make), start * size * 4);
    await new Promise(setImmediate);
    run.working("the teacher's features", start + texts.length, encoded.length);
  }
  return table;
}

/** SHA-256 of all that decides a feature: every weight but the head's. */
function hashWeights(weights: Weights): string {
  const hash = createHash("sha256");
  for (const [name, tensor] of weights) if (!isHead(name)) hash.update(name).update(tensor.bytes());
  return hash.digest("hex");
}

/** Tokens as the model reads them: they stand for tokenizer, encoding, length and text alike. */
function hashTexts(texts: readonly Encoded[]): string {
  const hash = createHash("sha256");
  for (const { ids, types } of texts) hash.update(`${ids.join(" ")}|${types.join(" ")}\n`);
  return hash.digest("hex");
}

function computeFeatures(run: Pick<Run, "model" | "device">, weights: Weights, texts: readonly Encoded[]): Uint8Array {
  const { device } = run;
  const model: Model = run.model;
  const size = model.shape.config.hiddenSize;
  const table = new Float32Array(texts.length * size);
  for (const batch of lengthBatches(texts, device === "cpu" ? tokensPerBatch.cpu : tokensPerBatch.gpu)) {
    const padded = padBatch(
      batch.map((i) => texts[i] as Encoded),
      model.tokenizer.special.pad,
    );
    const values = scope(() => noGrad(() => featureOf(model.shape, weights, toInput(padded, device), evaluating).floats()));
    for (const [row, i] of batch.entries()) table.set(values.subarray(row * size, (row + 1) * size), i * size);
  }
  return new Uint8Array(table.buffer);
}
