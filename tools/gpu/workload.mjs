// Models of a given size with random weights, and batches of random tokens. The cost of a step does not depend on the values.

import { listen } from "../../dist/base/events.js";
import { getParameterShapes, parseModelConfig } from "../../dist/models/index.js";
import { keep, noGrad, Rng, randn, scope, seedGenerator, zeros } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/batch-transfer.js";
import { toDataset, trainSettingsSchema, transformExamples } from "../../dist/train/index.js";
import { createStepRunner } from "../../dist/train/step-runner.js";
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
  // Words are the numbers of their tokens.
  const encodeWords = ([text], maxLength) => encodeNumbers(text, maxLength);
  const tokenizer = {
    special: { padId: 0, clsId: 101, sepId: 102, unkId: 100, maskId: 103 },
    hash: "bench",
    wordToId: Number,
    encodeWords,
    encodeAll: (inputs, maxLength) => inputs.map((texts) => encodeWords(texts, maxLength)),
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

function createEncoding(ids, words) {
  return {
    ids,
    tokenTypeIds: new Int32Array(ids.length),
    truncated: false,
    words,
    fields: new Uint8Array(words.length),
    positions: Int32Array.from(words.keys(), (position) => position + 1),
  };
}

function encodeNumbers(text, maxLength) {
  const words = text
    .split(" ")
    .filter(Boolean)
    .slice(0, maxLength - 2);
  return createEncoding(Int32Array.from([101, ...words.map(Number), 102]), words);
}

/**
 * Random tokens with alternating labels. `getLength` returns the length of each text. The words are the numbers of the tokens, or
 * those of `vocabulary`, a list of [token, word].
 */
export function createRandomDataset(count, getLength, vocabulary = null) {
  const rng = new Rng("bench");
  const names = vocabulary && new Map(vocabulary);
  const drawId = () =>
    vocabulary ? vocabulary[rng.integer(vocabulary.length)][0] : 1000 + rng.integer(vocabSize - 1000);
  const items = Array.from({ length: count }, (_, i) => {
    const ids = Int32Array.from({ length: getLength(i, rng) }, drawId);
    const words = Array.from(ids.subarray(1, -1), (id) => names?.get(id) ?? String(id));
    return { example: { id: String(i), texts: [words.join(" ")], label: i % 2 }, encoding: createEncoding(ids, words) };
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

/** An attack that always succeeds, with texts of the same length. */
const reverseWords = async ({ examples }) => examples.map(({ texts: [text] }) => [text.split(" ").reverse().join(" ")]);

/** A training job on these texts. Methods that replace texts, such as hash-vote, have done so. */
export function createJob(
  model,
  dataset,
  batchSize,
  methods,
  {
    deviceConfig,
    cudaGraphs = true,
    settings = {},
    onWarning = () => {},
    onStep = () => {},
    substitutions = createSubstitutions(),
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
  const examples = dataset.items.map(({ example }) => example);
  const transformed = transformExamples(methods, examples, task, new Rng("bench"));
  return {
    model,
    task,
    settings: trainSettingsSchema.parse({ batchSize, ...settings }),
    methods,
    train: transformed === examples ? dataset : toDataset(model, transformed),
    validation: null,
    seed: 1,
    deviceConfig,
    cudaGraphs,
    files: null,
    resume: false,
    loadSubstitutions: async () => substitutions,
    attackTexts: reverseWords,
    ...listen({ warning: ({ message }) => onWarning(message), step: onStep }),
  };
}

/**
 * Prepares a training whose steps can be run one at a time, over the batches in turn. A method that attacks texts has attacked them
 * once, so every step has attacked texts.
 */
export async function createSteps(model, dataset, batchSize, methods, options) {
  const job = createJob(model, dataset, batchSize, methods, options);
  const training = await createTrainingContext(job);
  const runner = createStepRunner(training);
  for (const method of methods) await method.beforeStep?.(training, training.stepsPerEpoch);
  const batches = [];
  for (let start = 0; start + batchSize <= job.train.items.length; start += batchSize)
    batches.push(
      toHostBatch(
        job,
        Int32Array.from({ length: batchSize }, (_, i) => start + i),
      ),
    );
  let stepIndex = 0;
  training.optimizer.setLearningRateFactor(1);
  return {
    training,
    /** How many examples the methods make of each text. */
    examplesPerText: job.train.items.length / dataset.items.length,
    runStep: () => runner.runStep(stepIndex, [batches[stepIndex++ % batches.length]]),
    close() {
      runner.dispose();
      training.close();
    },
  };
}
