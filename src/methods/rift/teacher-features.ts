import { createHash } from "node:crypto";
import { getCachedBytes } from "../../base/cache.js";
import { batchForInference, checkOutputs, extractFeatures, isHeadParameter, toModelInput } from "../../models/index.js";
import { evalMode, type Weights } from "../../nn/index.js";
import { isTf32Allowed, noGrad, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding } from "../../text/encoding.js";
import type { TrainingContext, TrainingJob } from "../../train/index.js";

/** Texts per cache entry. An entry depends only on its texts, so runs with more data reuse it. */
const chunkSize = 512;

/**
 * Computes the pre-trained model's features of the training texts by position. They never change,
 * so they are computed once in float32 and cached on disk.
 */
export async function computeTeacherFeatures(
  training: Pick<TrainingContext, "job" | "getPretrainedWeights" | "computeRows" | "reportProgress">,
): Promise<(index: number) => Float32Array> {
  const { job } = training;
  const { architecture } = job.model;
  const weights = training.getPretrainedWeights();
  const { hiddenSize } = architecture.config;
  const encodings = job.train.items.map((item) => item.encoding);
  const teacherKey = [1, architecture.pooling, architecture.config.raw, hashWeights(weights), isTf32Allowed()];
  const size = job.dryRun ? job.settings.batchSize : chunkSize;
  // A dry run computes one batch.
  const end = job.dryRun ? Math.min(size, encodings.length) : encodings.length;
  const starts = Array.from({ length: Math.ceil(end / size) }, (_, i) => i * size);
  const chunks = await training.computeRows(starts, async (own) => {
    const computed: Float32Array[] = [];
    for (const start of own) {
      const texts = encodings.slice(start, start + size);
      const compute = async (): Promise<Uint8Array> => computeFeatures(job, weights, texts);
      const bytes = job.dryRun
        ? await compute()
        : await getCachedBytes("teacher", [...teacherKey, hashTexts(texts)], compute);
      // A copy, because floats must be aligned in memory.
      computed.push(new Float32Array(new Uint8Array(bytes).buffer));
      await new Promise(setImmediate);
      training.reportProgress("teacher features", start + texts.length, encodings.length);
    }
    return computed;
  });
  const missing = new Float32Array(hiddenSize);
  return (index) => {
    const start = (index % size) * hiddenSize;
    return chunks[Math.floor(index / size)]?.subarray(start, start + hiddenSize) ?? missing;
  };
}

/** SHA-256 of everything that decides the features: all weights except the head. */
function hashWeights(weights: Weights): string {
  const hash = createHash("sha256");
  for (const [name, tensor] of weights) if (!isHeadParameter(name)) hash.update(name).update(tensor.toBytes());
  return hash.digest("hex");
}

/** SHA-256 of the tokens, which depend on tokenizer, tokenization, maximum length and text. */
function hashTexts(texts: readonly Encoding[]): string {
  const hash = createHash("sha256");
  for (const { ids, tokenTypeIds } of texts) hash.update(`${ids.join(" ")}|${tokenTypeIds.join(" ")}\n`);
  return hash.digest("hex");
}

function computeFeatures(
  { model, deviceConfig }: TrainingJob,
  weights: Weights,
  texts: readonly Encoding[],
): Uint8Array {
  const { device } = deviceConfig;
  const { config } = model.architecture;
  const { hiddenSize } = config;
  const features = new Float32Array(texts.length * hiddenSize);
  for (const batch of batchForInference(texts, device)) {
    const chosen = batch.map((i) => texts[i]!);
    const padded = padBatch(chosen, model.tokenizer.special.padId);
    const values = scope(() =>
      noGrad(() => {
        const input = toModelInput(padded, config, device);
        return checkOutputs(extractFeatures(model.architecture, weights, input, evalMode).toFloat32Array());
      }),
    );
    for (const [row, i] of batch.entries())
      features.set(values.subarray(row * hiddenSize, (row + 1) * hiddenSize), i * hiddenSize);
  }
  return new Uint8Array(features.buffer);
}
