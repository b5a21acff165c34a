// Pre-trains on the same batches with Temper and with a plain transformers loop, and compares the perplexity; then with ROSE
// and other seeds: node tools/gpu/pretrain.mjs --model M --data texts.jsonl --out FOLDER [--texts N] [--epochs N]
// [--seeds N] (after a build; TEMPER_PYTHON has torch and transformers). Models are in FOLDER/standard and FOLDER/rose-N.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { preparePretraining, pretrain, resolvePretrainRequest } from "../../dist/actions/pretrain/pretrain.js";
import { saveModel } from "../../dist/models/index.js";
import { free } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/batch-transfer.js";
import { singleRank } from "../../dist/train/index.js";
import { computeLearningRateFactor } from "../../dist/train/settings.js";
import { createTrainingContext } from "../../dist/train/training-context.js";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    data: { type: "string" },
    out: { type: "string" },
    texts: { type: "string", default: "8000" },
    epochs: { type: "string", default: "1" },
    seeds: { type: "string", default: "3" },
    device: { type: "string", default: "cuda" },
    batch: { type: "string", default: "64" },
  },
});
const { model, out, device } = values;
mkdirSync(out, { recursive: true });
const data = join(out, "texts.jsonl");
writeFileSync(data, `${readFileSync(values.data, "utf8").split("\n").slice(0, Number(values.texts)).join("\n")}\n`);

const train = { epochs: Number(values.epochs), batchSize: Number(values.batch), learningRate: 1e-4, warmupRatio: 0.06 };
const createRequest = (seed, methods) => ({ model, data, device, seed, methods, train, maxLength: 128 });

/** Writes every batch of a run with its masks, and the initial model with its new head. */
async function exportBatches(folder) {
  const config = resolvePretrainRequest(createRequest(0, []));
  const { job } = await preparePretraining(config, {});
  mkdirSync(folder, { recursive: true });
  await saveModel(join(folder, "model"), job.model);
  const training = await createTrainingContext({ ...job, ranks: singleRank, files: null, resume: false });
  const batches = [];
  const arrays = [];
  const add = (dataset, indices, epoch, factor) => {
    const host = toHostBatch({ ...job, train: dataset }, indices, { epoch });
    const { batchSize, sequenceLength, ids, attentionMask } = host.padded;
    const labels = new Int32Array(ids.length).fill(-100);
    host.predictedPositions.forEach((position, i) => {
      if (host.labels[i] >= 0) labels[position] = host.labels[i];
    });
    batches.push({ rows: batchSize, length: sequenceLength, factor });
    arrays.push(ids, Int32Array.from(attentionMask), labels);
  };
  let steps = [];
  for (let step = 0; step < training.totalSteps; step++) {
    const epoch = Math.floor(step / training.stepsPerEpoch);
    const inEpoch = step % training.stepsPerEpoch;
    if (inEpoch === 0) steps = training.getEpochBatches(epoch);
    add(job.train, steps[inEpoch][0], epoch, computeLearningRateFactor(config.train, step, training.totalSteps, epoch));
  }
  for (let start = 0; start < job.validation.items.length; start += 64) {
    const count = Math.min(64, job.validation.items.length - start);
    add(
      job.validation,
      Int32Array.from({ length: count }, (_, i) => start + i),
      0,
      null,
    );
  }
  training.close();
  free(job.model.weights);
  writeFileSync(join(folder, "batches.json"), JSON.stringify({ train: config.train, batches }));
  writeFileSync(
    join(folder, "batches.bin"),
    Buffer.concat(arrays.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength))),
  );
}

const run = async (name, seed, methods) => {
  const started = performance.now();
  const { validation, before, steps } = await pretrain({ ...createRequest(seed, methods), out: join(out, name) });
  const seconds = (performance.now() - started) / 1000;
  console.log(JSON.stringify({ name, steps, before: before.perplexity, perplexity: validation.perplexity, seconds }));
  return validation.perplexity;
};

const batches = join(out, "batches");
await exportBatches(batches);
const standard = await run("standard", 0, []);
const python = process.env.TEMPER_PYTHON ?? "python3";
const script = fileURLToPath(new URL("pretrain.py", import.meta.url));
const reference = JSON.parse(execFileSync(python, [script, batches, device], { encoding: "utf8" }));
console.log(JSON.stringify({ name: "transformers", ...reference, ratio: standard / reference.perplexity }));
for (let seed = 0; seed < Number(values.seeds); seed++) await run(`rose-${seed}`, seed, ["rose"]);
