// Step time of DeBERTa-v3-base and ModernBERT-base with random weights (32 x 128, padded) beside transformers eager and
// torch.compile: node scripts/gpu/families.mjs [STEPS] (after a build; TEMPER_PYTHON has torch and transformers).
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { getParameterShapes, parseModelConfig } from "../../dist/models/index.js";
import { keep, noGrad, randn, scope, seedGenerator, zeros } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/batch-transfer.js";
import { trainSettingsSchema } from "../../dist/train/index.js";
import { createStepRunner } from "../../dist/train/step-runner.js";
import { createTrainingContext } from "../../dist/train/training-context.js";
import { createRandomDataset, paddedLengths } from "./workload.mjs";

const [rows, length] = [32, 128];
const steps = Number(process.argv[2] ?? 30);
const base = { hidden_size: 768, num_attention_heads: 12, max_position_embeddings: 512, pad_token_id: 0 };
const configs = {
  "deberta-v3-base": {
    ...base,
    model_type: "deberta-v2",
    vocab_size: 128100,
    num_hidden_layers: 12,
    intermediate_size: 3072,
    relative_attention: true,
    pos_att_type: ["p2c", "c2p"],
    share_att_key: true,
    norm_rel_ebd: "layer_norm",
    position_buckets: 256,
    position_biased_input: false,
    type_vocab_size: 0,
  },
  "modernbert-base": { ...base, model_type: "modernbert", max_position_embeddings: 8192 },
};

function createModel(raw, device) {
  const config = parseModelConfig(raw, "bench");
  const architecture = { config, head: "hf", pooling: "cls", numLabels: 2 };
  const weights = new Map();
  seedGenerator(device, 1);
  noGrad(() => {
    for (const [name, shape] of getParameterShapes(architecture)) {
      const sample = () =>
        /norm\.weight$/i.test(name) ? zeros(shape, { device }).add(1) : randn(shape, { device }).mul(0.02);
      weights.set(name, keep(scope(sample)).requiresGrad_());
    }
  });
  const tokenizer = { special: { padId: 0, clsId: 1, sepId: 2, unkId: 3, maskId: 4 }, hash: "bench", wordToId: Number };
  const rest = { tokenization: "subword", maxLength: 512, labels: ["0", "1"], task: "bench", newlyInitialized: [] };
  return { architecture, weights, tokenizer, folder: "", reference: "bench", ...rest };
}

async function measure(raw) {
  const device = "cuda";
  const model = createModel(raw, device);
  const train = { ...createRandomDataset(rows, paddedLengths(length)), maxLength: 512 };
  const job = {
    model,
    task: { name: "bench", labels: ["0", "1"] },
    train,
    validation: null,
    methods: [],
    settings: trainSettingsSchema.parse({ batchSize: rows }),
    seed: 0,
    deviceConfig: { device, computeDtype: "bfloat16" },
  };
  const training = await createTrainingContext(job);
  const runner = createStepRunner(training);
  const host = toHostBatch(
    job,
    Int32Array.from({ length: rows }, (_, i) => i),
  );
  const run = (index) => scope(() => runner.runStep(index, [host]).values.toFloat32Array());
  for (let i = 0; i < 10; i++) run(i);
  const times = Array.from({ length: 5 }, (_, round) => {
    const start = performance.now();
    for (let i = 0; i < steps; i++) run(10 + round * steps + i);
    return (performance.now() - start) / steps;
  });
  runner.dispose();
  training.close();
  return times.sort((a, b) => a - b)[2];
}

const python = process.env.TEMPER_PYTHON ?? "python3";
const peer = fileURLToPath(new URL("./families_hf.py", import.meta.url));
for (const [name, raw] of Object.entries(configs)) {
  const ms = await measure(raw);
  const peers = Object.fromEntries(
    ["eager", "compile"].map((mode) => [
      mode,
      Number(execFileSync(python, [peer, mode, String(steps), String(rows), String(length), JSON.stringify(raw)])),
    ]),
  );
  const ratio = peers.eager / ms;
  console.log(
    JSON.stringify({ name, temperMs: ms, eagerMs: peers.eager, compileMs: peers.compile, ratioToEager: ratio }),
  );
}
