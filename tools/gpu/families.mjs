// Step time of DeBERTa-v3-base and ModernBERT-base with random weights (32 x 128, padded) beside transformers eager and
// torch.compile, and captured steps of every method: node tools/gpu/families.mjs [STEPS] [NAME,…] (after a build; TEMPER_PYTHON has
// torch and transformers).
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseSpec } from "../../dist/base/spec.js";
import { createMethods } from "../../dist/methods/index.js";
import { getParameterShapes, parseModelConfig } from "../../dist/models/index.js";
import { free, keep, noGrad, randn, scope, seedGenerator, synchronize, zeros } from "../../dist/tensor/index.js";
import { createRandomDataset, createSteps, paddedLengths } from "./workload.mjs";

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
  const rest = { tokenization: "word", maxLength: 512, labels: ["0", "1"], task: "bench", newlyInitialized: [] };
  return { architecture, weights, tokenizer, folder: "", reference: "bench", ...rest };
}

const device = "cuda";
const dataset = { ...createRandomDataset(rows, paddedLengths(length)), maxLength: 512 };

/** The median time of captured steps, in milliseconds. */
async function measure(raw, specs, deviceConfig = { device, computeDtype: "bfloat16" }, count = steps, rounds = 5) {
  const model = createModel(raw, device);
  const methods = createMethods(specs.map((spec) => parseSpec(spec, "methods")));
  const training = await createSteps(model, dataset, rows, methods, { deviceConfig });
  const run = () => free(training.runStep().values);
  for (let i = 0; i < 5; i++) run();
  synchronize();
  const times = Array.from({ length: rounds }, () => {
    const start = performance.now();
    for (let i = 0; i < count; i++) run();
    synchronize();
    return (performance.now() - start) / count;
  });
  training.close();
  free(model.weights);
  return times.sort((first, second) => first - second)[rounds >> 1];
}

const stacks = [
  "r-drop",
  "rose:variant=second",
  "rose:variant=first",
  "child-tuning:variant=F",
  "child-tuning:variant=D",
  "freelb:steps=2",
  "ptwd",
  "mixout",
  "ascc",
  "ascc+rift",
  "smart",
];

const python = process.env.TEMPER_PYTHON ?? "python3";
const peer = fileURLToPath(new URL("./families_hf.py", import.meta.url));
const names = process.argv[3]?.split(",") ?? Object.keys(configs);
for (const name of names) {
  const raw = configs[name];
  const ms = await measure(raw, []);
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
  for (const stack of stacks) {
    const computeDtype = stack === "smart" ? "float32" : "bfloat16";
    try {
      const cost = await measure(raw, stack.split("+"), { device, computeDtype }, 3, 3);
      console.log(JSON.stringify({ name, stack, ms: cost }));
    } catch (error) {
      console.log(JSON.stringify({ name, stack, failed: String(error.message).slice(0, 300) }));
    }
  }
}
