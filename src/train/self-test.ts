// The self-test of a low precision on this CPU. src/tensor/precision-verdict.ts starts it as a process of its own,
// because an illegal instruction ends the process. It computes a small classifier in the precision and in float32,
// compares both, measures both, and prints a verdict.
import { writeSync } from "node:fs";
import {
  type Architecture,
  classify,
  createEagerClassifier,
  type DeviceConfig,
  forward,
  getParameterShapes,
  parseModelConfig,
  toModelInput,
} from "../models/index.js";
import { canPrepare, crossEntropy, trainMode } from "../nn/index.js";
import { free, getNumThreads, keep, Rng, scope, setNumThreads, type Tensor, tensor } from "../tensor/index.js";
import {
  createFailedVerdict,
  type LowPrecision,
  lowPrecisions,
  type PrecisionUse,
  type PrecisionVerdict,
  trustPrecision,
} from "../tensor/precision-verdict.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import { computeGradients, LowPrecisionWeights } from "./mixed-precision.js";

/** The best of several turns says how fast the CPU is, even if it is busy. */
const turns = 4;

/**
 * The relative error that only a wrong kernel exceeds: unrelated numbers give 1.4, sound ones 0.03
 * in bf16 and 0.1 in int8 (0.13 with 128 levels).
 */
const maxError = 0.5;

/** Two layers of MiniLM: the speed of products depends on their sizes. */
const config = parseModelConfig(
  {
    model_type: "bert",
    vocab_size: 1000,
    hidden_size: 384,
    num_hidden_layers: 2,
    num_attention_heads: 12,
    intermediate_size: 1536,
    max_position_embeddings: 256,
    num_labels: 2,
    hidden_dropout_prob: 0,
    attention_probs_dropout_prob: 0,
  },
  "self-test",
);
const architecture: Architecture = { config, head: "hf", pooling: "cls", numLabels: 2 };
const comparedParameter = "bert.encoder.layer.0.attention.self.value.weight";
const special = { clsId: 1, sepId: 2, padId: 0, unkId: 3, maskId: 4 };
const float32: DeviceConfig = { device: "cpu", computeDtype: "float32" };

function createWeights(rng: Rng): Map<string, Tensor> {
  return new Map(
    [...getParameterShapes(architecture)].map(([name, shape]) => {
      const draw = (): number => (shape.length > 1 ? 0.05 * rng.normal() : name.endsWith("Norm.weight") ? 1 : 0);
      const size = shape.reduce((product, count) => product * count, 1);
      return [name, keep(tensor(Float32Array.from({ length: size }, draw), shape).requiresGrad_())];
    }),
  );
}

/** Texts of different lengths, as the variants that an attack scores together. */
function createTexts(rng: Rng, count: number, minWords: number): Encoding[] {
  return Array.from({ length: count }, (_, i) => {
    const words = Array.from({ length: minWords + ((7 * i) % 50) }, () => 5 + rng.integer(config.vocabSize - 5));
    const ids = Int32Array.from([special.clsId, ...words, special.sepId]);
    return { ids, tokenTypeIds: new Int32Array(ids.length), truncated: false };
  });
}

/** The length of the difference, relative to how much the exact values vary. */
function measureError(found: Float32Array, exact: Float32Array): number {
  const mean = exact.reduce((sum, value) => sum + value, 0) / exact.length;
  let [error, size] = [0, 0];
  for (const [i, value] of exact.entries()) {
    error += (found[i]! - value) ** 2;
    size += (value - mean) ** 2;
  }
  const relative = Math.sqrt(error / size);
  return Number.isFinite(relative) ? relative : Number.POSITIVE_INFINITY;
}

interface Contender {
  run(texts: readonly Encoding[]): Promise<Float32Array>;
  close(): void;
}

interface Comparison {
  readonly error: number;
  readonly speedup: number;
}

/** Takes the best CPU time of each in turns, because a host may be busy. */
async function runInTurns(contenders: readonly Contender[], texts: readonly Encoding[], turns: number) {
  const seconds = contenders.map(() => Number.POSITIVE_INFINITY);
  const results: Float32Array[] = [];
  for (let turn = 0; turn < turns; turn++)
    for (const [i, { run }] of contenders.entries()) {
      const started = process.cpuUsage();
      results[i] = await run(texts);
      const { user, system } = process.cpuUsage(started);
      seconds[i] = Math.min(seconds[i]!, (user + system) / 1e6);
    }
  return { results, speedup: seconds[0]! / seconds[1]! };
}

/** Compares the results of a few texts, and the speed with batches of short and of long ones. The slower counts. */
async function compare(exact: Contender, low: Contender, batches: readonly Encoding[][]): Promise<Comparison> {
  const threads = getNumThreads();
  const few = await runInTurns([exact, low], batches[0]!.slice(0, 6), 2);
  // Threads that wait for each other use the CPU, too.
  setNumThreads(1);
  let { speedup } = few;
  // Without its instructions, bf16 may be a hundred times as slow, and few texts say enough.
  if (speedup >= 0.3) {
    const speedups: number[] = [];
    for (const texts of batches) speedups.push((await runInTurns([exact, low], texts, turns)).speedup);
    speedup = Math.min(...speedups);
  }
  setNumThreads(threads);
  return { error: measureError(few.results[1]!, few.results[0]!), speedup };
}

function createInference(weights: Map<string, Tensor>, deviceConfig: DeviceConfig): Contender {
  const classifier = createEagerClassifier({ architecture, tokenizer: { special } }, weights, deviceConfig);
  return {
    run: async (texts) => Float32Array.from((await classify(classifier, texts)).map((row) => row[1]! - row[0]!)),
    close: () => classifier.close(),
  };
}

/** A search repeats about one text in eight in float32, because its margin is small. */
const repeatedFraction = 1 / 8;

function createSearch(low: Contender, exact: Contender): Contender {
  return {
    async run(texts) {
      const found = await low.run(texts);
      await exact.run(texts.slice(0, Math.ceil(repeatedFraction * texts.length)));
      return found;
    },
    close() {},
  };
}

/** Forward and backward passes. The numbers are gradients of the first layer, the last to be computed. */
function createTraining(weights: Map<string, Tensor>, isLow: boolean): Contender {
  const copy = isLow ? new LowPrecisionWeights({ architecture, weights }, "bfloat16") : null;
  return {
    run: async (texts) =>
      scope(() => {
        const labels = Int32Array.from(texts, (_, i) => i % 2);
        const input = toModelInput(padBatch(texts, special.padId), config, "cpu");
        const { logits } = forward(architecture, copy?.weights ?? weights, input, trainMode);
        const loss = crossEntropy(logits, tensor(labels, [texts.length]).to("int64"));
        const gradients = computeGradients(loss, weights, copy);
        return gradients.get(comparedParameter)!.toFloat32Array();
      }),
    close: () => copy?.dispose(),
  };
}

async function test(precision: LowPrecision): Promise<PrecisionVerdict> {
  if (precision === "int8" && !canPrepare("int8")) throw new Error("this libtorch has no kernels for int8");
  const rng = new Rng("self-test");
  const weights = createWeights(rng);
  const batches = [createTexts(rng, 64, 6), createTexts(rng, 16, 200)];
  const lowConfig: DeviceConfig =
    precision === "int8" ? { ...float32, isQuantized: true } : { ...float32, computeDtype: "bfloat16" };
  const [exact, low] = [createInference(weights, float32), createInference(weights, lowConfig)];
  const found: Partial<Record<PrecisionUse, Comparison>> = {};
  found.search = await compare(exact, createSearch(low, exact), batches);
  if (precision === "bf16") {
    found.inference = await compare(exact, low, batches);
    const training = [createTraining(weights, false), createTraining(weights, true)] as const;
    const smallBatches = batches.map((texts) => texts.slice(0, texts.length / 4));
    found.training = await compare(...training, smallBatches);
    for (const { close } of training) close();
  }
  for (const { close } of [exact, low]) close();
  free(weights);
  for (const [use, { error }] of Object.entries(found))
    if (error > maxError) {
      const what = use === "training" ? "gradients" : "logits";
      return createFailedVerdict(`its ${what} differed from those of fp32 by ${(100 * error).toPrecision(2)}%`);
    }
  const { search, inference, training } = found;
  return {
    failure: null,
    search: search.speedup,
    inference: inference?.speedup ?? null,
    training: training?.speedup ?? null,
  };
}

const precision = lowPrecisions.find((name) => name === process.argv[2]);
if (!precision) throw new Error(`expected ${lowPrecisions.join(" or ")}`);
if (process.env.TEMPER_SIMULATE_CRASH === precision) process.kill(process.pid, "SIGILL");
trustPrecision(precision);
writeSync(1, JSON.stringify(await test(precision)));
