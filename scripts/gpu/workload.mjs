// A model of a given size with random weights, and batches of random tokens: what a step costs does not depend on what they say.
import { modelParameters, parseConfig } from "../../dist/models/index.js";
import { keep, noGrad, Rng, randn, scope, seedGenerator, zeros } from "../../dist/tensor/index.js";
import { toHostBatch } from "../../dist/train/host-batch.js";
import { trainSettingsSchema } from "../../dist/train/index.js";
import { openTraining } from "../../dist/train/prepare-training.js";

export const sizes = {
  minilm: { layers: 6, hidden: 384, heads: 12 },
  base: { layers: 12, hidden: 768, heads: 12 },
  large: { layers: 24, hidden: 1024, heads: 16 },
};

/** Multiply-adds of a training step's matrices, twice over (forward 1, backward 2), for rows of one length. */
export function stepFlops({ layers, hidden }, rows, length) {
  const tokens = rows * length;
  return 3 * layers * (2 * 12 * hidden * hidden * tokens + 4 * length * hidden * tokens);
}

const vocabulary = 30522;

/** `drawnOn`: where the weights are drawn, since a CPU and a GPU draw different ones. */
export function randomModel(size, device, encoding = "subword", drawnOn = device) {
  const { layers, hidden, heads } = sizes[size];
  const config = parseConfig(
    {
      model_type: "bert",
      vocab_size: vocabulary,
      hidden_size: hidden,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      intermediate_size: 4 * hidden,
    },
    "bench",
  );
  const shape = { config, head: "hf", feature: "token", classes: 2 };
  const weights = new Map();
  const on = { device: drawnOn };
  seedGenerator(drawnOn, 1);
  noGrad(() => {
    for (const [name, dims] of modelParameters(shape)) {
      const drawn = () => (name.endsWith("LayerNorm.weight") ? zeros(dims, on).add(1) : randn(dims, on).mul(0.02));
      const value = scope(() => drawn().toDevice(device));
      weights.set(name, keep(value).requireGrad());
    }
  });
  const tokenizer = {
    special: { pad: 0, start: 101, end: 102, unknown: 100, mask: 103 },
    hash: "bench",
    wordToken: (word) => Number(word),
  };
  return {
    shape,
    weights,
    tokenizer,
    encoding,
    maxLength: 512,
    labels: ["0", "1"],
    task: "bench",
    folder: "",
    reference: "bench",
    fresh: [],
  };
}

/** As ragged as bench_hf.py's batches: half of a text may be padding. */
export const ragged = (length) => (i) => (i % 32 === 0 ? length : length - ((i * 7) % (length >> 1)));

/** Items of random tokens, labels in turn; `lengths` gives each row's. */
export function randomDataset(rows, lengths) {
  const rng = new Rng("bench");
  const items = Array.from({ length: rows }, (_, i) => {
    const length = lengths(i, rng);
    const ids = Int32Array.from({ length }, () => 1000 + rng.integer(vocabulary - 1000));
    const words = Array.from(ids.subarray(1, -1), String);
    const encoded = {
      ids,
      types: new Int32Array(length),
      truncated: false,
      words,
      fields: new Uint8Array(words.length),
      positions: Int32Array.from(words.keys(), (at) => at + 1),
    };
    return { example: { id: String(i), texts: [words.join(" ")], label: i % 2 }, encoded };
  });
  return { items, lengths: Int32Array.from(items, (item) => item.encoded.ids.length), truncated: 0 };
}

/** Eight numbers near a word: substitutes for random words. */
const neighbours = {
  name: "bench",
  hash: "bench",
  usesPartOfSpeech: false,
  of: (word) =>
    Array.from({ length: 8 }, (_, i) => String(1000 + ((Number(word) + 17 * (i + 1)) % (vocabulary - 1000)))),
};

/** A function that runs one update of a method over the batches in turn. */
export async function openSteps(
  model,
  dataset,
  rows,
  layers,
  { device, compute, graph, settings = {}, onNotice = () => undefined },
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
  const training = await openTraining(
    {
      model,
      task,
      settings: trainSettingsSchema.parse({ batchSize: rows, ...settings }),
      layers,
      train: dataset,
      selection: null,
      seed: 1,
      placement: { device, compute },
      graph,
      folder: null,
      resume: false,
      substitutions: async () => neighbours,
      watch: { onNotice },
    },
    null,
  );
  const batches = [];
  for (let start = 0; start + rows <= dataset.items.length; start += rows) {
    batches.push(
      toHostBatch(
        dataset,
        Int32Array.from({ length: rows }, (_, i) => start + i),
        0,
        device,
      ),
    );
  }
  let number = 0;
  training.context.optimizer.setRate(1);
  return {
    step: () => training.runner.update(number, [batches[number++ % batches.length]]),
    close: () => training.close(),
  };
}
