import { createHash } from "node:crypto";
import { getCachedBytes } from "../../cache.js";
import { extractFeatures, isHeadParameter, type Model, toModelInput } from "../../models/index.js";
import { evalMode, type Weights } from "../../nn/index.js";
import { isTf32Allowed, noGrad, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding } from "../../text/encoding.js";
import { lengthBatches, type TrainingContext } from "../../train/index.js";

/** Texts of one cache entry. An entry's content is decided by its texts alone, so a longer run uses what a shorter one left. */
const chunkSize = 512;
/** What a trial computes instead, to time it. */
const [dryRunChunkSize, dryRunChunks] = [32, 3];
const tokensPerBatch = { cpu: 4096, gpu: 65536 };

/**
 * The features of the training texts by the pre-trained model, without dropout: [text, hidden]. They never change, so they are
 * computed once in float32 and kept on disk across epochs and runs.
 */
export async function computeTeacherFeatures(
  run: Pick<TrainingContext, "model" | "device" | "dataset" | "getPretrainedWeights" | "dryRun" | "reportProgress">,
): Promise<Float32Array> {
  const { model, dataset } = run;
  const weights = run.getPretrainedWeights();
  const size = model.architecture.config.hiddenSize;
  const encoded = dataset.items.map((item) => item.encoding);
  const table = new Float32Array(encoded.length * size);
  const bytes = new Uint8Array(table.buffer);
  const teacher = [1, model.architecture.pooling, model.architecture.config.raw, hashWeights(weights), isTf32Allowed()];
  const chunk = run.dryRun ? dryRunChunkSize : chunkSize;
  const end = run.dryRun ? Math.min(dryRunChunks * chunk, encoded.length) : encoded.length;
  for (let start = 0; start < end; start += chunk) {
    const texts = encoded.slice(start, start + chunk);
    const make = async (): Promise<Uint8Array> => computeFeatures(run, weights, texts);
    bytes.set(
      run.dryRun ? await make() : await getCachedBytes("teacher", [...teacher, hashTexts(texts)], make),
      start * size * 4,
    );
    await new Promise(setImmediate);
    run.reportProgress("the teacher's features", start + texts.length, encoded.length);
  }
  return table;
}

/** SHA-256 of all that decides a feature: every weight but the head's. */
function hashWeights(weights: Weights): string {
  const hash = createHash("sha256");
  for (const [name, tensor] of weights) if (!isHeadParameter(name)) hash.update(name).update(tensor.toBytes());
  return hash.digest("hex");
}

/** Tokens as the model reads them: they stand for tokenizer, encoding, length and text alike. */
function hashTexts(texts: readonly Encoding[]): string {
  const hash = createHash("sha256");
  for (const { ids, tokenTypeIds: types } of texts) hash.update(`${ids.join(" ")}|${types.join(" ")}\n`);
  return hash.digest("hex");
}

function computeFeatures(
  run: Pick<TrainingContext, "model" | "device">,
  weights: Weights,
  texts: readonly Encoding[],
): Uint8Array {
  const { device } = run;
  const model: Model = run.model;
  const size = model.architecture.config.hiddenSize;
  const table = new Float32Array(texts.length * size);
  for (const batch of lengthBatches(texts, device === "cpu" ? tokensPerBatch.cpu : tokensPerBatch.gpu)) {
    const padded = padBatch(
      batch.map((i) => texts[i] as Encoding),
      model.tokenizer.special.padId,
    );
    const values = scope(() =>
      noGrad(() =>
        extractFeatures(model.architecture, weights, toModelInput(padded, device), evalMode).toFloat32Array(),
      ),
    );
    for (const [row, i] of batch.entries()) table.set(values.subarray(row * size, (row + 1) * size), i * size);
  }
  return new Uint8Array(table.buffer);
}
