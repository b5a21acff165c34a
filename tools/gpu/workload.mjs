// Models of a given size with random weights, and batches of random tokens. The cost of a step does not depend on the values.

import { listen } from "../../dist/events.js";
import { getParameterShapes, parseModelConfig } from "../../dist/models/index.js";
import { keep, noGrad, Rng, randn, scope, seedGenerator, zeros } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/batch-transfer.js";
import { createStepRunner } from "../../dist/train/create-step-runner.js";
import { singleRank, trainSettingsSchema } from "../../dist/train/index.js";
import { createTrainingContext } from "../../dist/train/training-context.js";

export const sizes = {
  minilm: { layers: 6, hidden: 384, heads: 12 },
  base: { layers: 12, hidden: 768, heads: 12 },
  large: { layers: 24, hidden: 1024, heads: 16 },
};

/** Floating-point operations of the matrix products of a training step (forward 1, backward 2), for texts of one length. */
export function countStepFlops({ layers, hidden }, batchSize, length) {
  const tokens = batchSize * length;
  return 3 * layers * (2 * 12 * hidden * hidden * tokens + 4 * length * hidden * tokens);
}

const vocabSize = 30522;

/** `initDevice` is the device that samples the weights, because a CPU and a GPU sample different ones. */
export function createRandomModel(size, device, { tokenization = "subword", head = "hf", initDevice = device } = {}) {
  const { layers, hidden, heads } = sizes[size];
  const config = parseModelConfig(
    {
      model_type: "bert",
      vocab_size: vocabSize,
      hidden_size: hidden,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      intermediate_size: 4 * hidden,
    },
    "bench",
  );
  const architecture = { config, head, pooling: "cls", numLabels: 2 };
  const weights = new Map();
  seedGenerator(initDevice, 1);
  noGrad(() => {
    for (const [name, shape] of getParameterShapes(architecture)) {
      const options = { device: initDevice };
      const sample = () =>
        name.endsWith("LayerNorm.weight") ? zeros(shape, options).add(1) : randn(shape, options).mul(0.02);
      weights.set(name, keep(scope(() => sample().toDevice(device))).requiresGrad_());
    }
  });
  const tokenizer = {
    special: { padId: 0, clsId: 101, sepId: 102, unkId: 100, maskId: 103 },
    hash: "bench",
    wordToId: Number,
  };
  return {
    architecture,
    weights,
    tokenizer,
    tokenization,
    maxLength: 512,
    labels: ["0", "1"],
    task: "bench",
    folder: "",
    reference: "bench",
    newlyInitialized: [],
  };
}

/** Lengths like those of bench_hf.py: up to half of a text is padding. */
export const paddedLengths = (length) => (i) => (i % 32 === 0 ? length : length - ((i * 7) % (length >> 1)));

/** Random tokens with alternating labels. `getLength` returns the length of each text. */
export function createRandomDataset(count, getLength) {
  const rng = new Rng("bench");
  const items = Array.from({ length: count }, (_, i) => {
    const length = getLength(i, rng);
    const ids = Int32Array.from({ length }, () => 1000 + rng.integer(vocabSize - 1000));
    const words = Array.from(ids.subarray(1, -1), String);
    const encoding = {
      ids,
      tokenTypeIds: new Int32Array(length),
      truncated: false,
      words,
      fields: new Uint8Array(words.length),
      positions: Int32Array.from(words.keys(), (position) => position + 1),
    };
    return { example: { id: String(i), texts: [words.join(" ")], label: i % 2 }, encoding };
  });
  return { items, lengths: Int32Array.from(items, (item) => item.encoding.ids.length), truncatedCount: 0 };
}

/** Substitutions for random words: eight numbers near the word. `hasSubstitutes` selects the words that have some. */
export function createSubstitutions(hasSubstitutes = () => true) {
  const neighbors = (word) =>
    Array.from({ length: 8 }, (_, i) => String(1000 + ((word + 17 * (i + 1)) % (vocabSize - 1000))));
  return {
    name: "bench",
    hash: "bench",
    usesPartOfSpeech: false,
    getSubstitutes: (word) => (hasSubstitutes(Number(word)) ? neighbors(Number(word)) : []),
  };
}

/** Prepares a training whose steps can be run one at a time, over the batches in turn. */
export async function createSteps(
  model,
  dataset,
  batchSize,
  methods,
  {
    deviceConfig,
    cudaGraphs = true,
    settings = {},
    onWarning = () => {},
    substitutions = createSubstitutions(),
    ranks = singleRank,
  },
) {
  const task = {
    name: "bench",
    labels: ["0", "1"],
    fields: ["text"],
    modifiableFields: [0],
    metrics: [],
    splits: [],
    sourceNames: {},
    load: async () => [],
  };
  const job = {
    model,
    task,
    settings: trainSettingsSchema.parse({ batchSize, ...settings }),
    methods,
    train: dataset,
    validation: null,
    seed: 1,
    deviceConfig,
    cudaGraphs,
    files: null,
    resume: false,
    loadSubstitutions: async () => substitutions,
    ...listen({ warning: ({ message }) => onWarning(message) }),
    ranks,
  };
  const training = await createTrainingContext(job);
  const runner = createStepRunner(training);
  const batches = [];
  for (let start = 0; start + batchSize <= dataset.items.length; start += batchSize)
    batches.push(
      toHostBatch(
        job,
        Int32Array.from({ length: batchSize }, (_, i) => start + i),
        { rows: ranks.getRows(batchSize) },
      ),
    );
  let stepIndex = 0;
  training.optimizer.setLearningRateFactor(1);
  return {
    training,
    runStep: () => runner.runStep(stepIndex, [batches[stepIndex++ % batches.length]]),
    close() {
      runner.dispose();
      training.close();
    },
  };
}
