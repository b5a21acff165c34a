import { cpuFloat32, getParameterShapes, parseModelConfig } from "../../src/models/index.js";
import type { Model } from "../../src/models/model.js";
import type { Task } from "../../src/tasks/task.js";
import { keep, Rng, type Tensor, tensor } from "../../src/tensor/index.js";
import type { Tokenizer, WordLevelEncoding } from "../../src/text/encoding.js";
import { parseSubstitutionTable } from "../../src/text/substitutions.js";
import { type Dataset, type TrainingJob, type TrainingMethod, trainSettingsSchema } from "../../src/train/index.js";

// The smallest possible training: words w4 to w15 are the tokens 4 to 15, 2 and 3 start and end a
// text, 0 is padding.
const special = { clsId: 2, sepId: 3, padId: 0, unkId: 1, maskId: null };

function encodeWords(texts: readonly string[]): WordLevelEncoding {
  const words = texts.flatMap((text) => text.split(" "));
  const ids = Int32Array.from([special.clsId, ...words.map((word) => Number(word.slice(1))), special.sepId]);
  return {
    ids,
    tokenTypeIds: new Int32Array(ids.length),
    truncated: false,
    words,
    fields: new Uint8Array(words.length),
    positions: Int32Array.from(words.keys(), (i) => i + 1),
  };
}

const tokenizer: Tokenizer = {
  vocabSize: 16,
  special,
  hash: "tiny",
  encode: encodeWords,
  encodeAll: (inputs) => inputs.map(encodeWords),
  encodeWithOffsets: (texts) => ({ ...encodeWords(texts), offsets: [] }),
  encodeWords,
  wordToId: (word) => Number(word.slice(1)),
  idsToTokens: (ids) => Array.from(ids, (id) => `w${id}`),
  toJson: () => ({}),
};

const defaultConfig = {
  model_type: "bert",
  vocab_size: 16,
  hidden_size: 8,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  intermediate_size: 16,
  max_position_embeddings: 12,
};

/** A BERT with two narrow layers and random or given weights. */
export function tinyModel(config: object = defaultConfig, weights?: ReadonlyMap<string, Tensor>): Model {
  const rng = new Rng("tiny");
  const architecture = { config: parseModelConfig(config, "tiny"), head: "hf", pooling: "cls", numLabels: 3 } as const;
  const sample = (name: string, shape: readonly number[]): Tensor => {
    const stream = rng.fork(name);
    const mean = name.endsWith("LayerNorm.weight") ? 1 : 0;
    const values = Float32Array.from(
      { length: shape.reduce((product, size) => product * size, 1) },
      () => mean + 0.3 * stream.normal(),
    );
    return tensor(values, shape);
  };
  return {
    architecture,
    weights: new Map(
      [...getParameterShapes(architecture)].map(([name, shape]) => [
        name,
        keep(weights?.get(name) ?? sample(name, shape)).requiresGrad_(),
      ]),
    ),
    tokenizer,
    tokenization: "word",
    maxLength: 12,
    labels: ["a", "b", "c"],
    task: null,
    folder: ".",
    reference: "tiny",
    newlyInitialized: [],
  };
}

/** A dataset of texts that are given as token IDs, including the special tokens. */
export function tinyDataset(texts: readonly { readonly ids: readonly number[]; readonly label: number }[]): Dataset {
  const items = texts.map(({ ids, label }, i) => {
    const text = ids
      .slice(1, -1)
      .map((id) => `w${id}`)
      .join(" ");
    return { example: { id: String(i), texts: [text], label }, encoding: encodeWords([text]) };
  });
  return { items, lengths: Int32Array.from(items, (item) => item.encoding.ids.length), truncatedCount: 0 };
}

const task: Task = {
  name: "tiny",
  labels: ["a", "b", "c"],
  fields: ["text"],
  modifiableFields: [0],
  metrics: ["accuracy"],
  splits: ["train"],
  sourceNames: {},
  load: async () => [],
};

/** The next two words are the substitutes of each word. */
const substitutions = parseSubstitutionTable(
  Object.fromEntries(
    Array.from({ length: 12 }, (_, i) => [`w${i + 4}`, [`w${((i + 1) % 12) + 4}`, `w${((i + 2) % 12) + 4}`]]),
  ),
  "tiny table",
);

/** Twelve texts with one to six words. */
export const texts = Array.from({ length: 12 }, (_, i) => {
  const rng = new Rng(i);
  const words = Array.from({ length: 1 + rng.integer(6) }, () => 4 + rng.integer(12));
  return { ids: [special.clsId, ...words, special.sepId], label: i % 3 };
});

/** An attack that reverses the words of texts with at least two; others resist. */
function reverseWords({ texts: [text] }: { readonly texts: readonly string[] }): readonly string[] | null {
  const words = text!.split(" ");
  return words.length > 1 ? [words.reverse().join(" ")] : null;
}

/** A job that trains on these texts: four per batch, with dropout, at a high learning rate. */
export function tinyJob(
  model: Model,
  methods: readonly TrainingMethod[],
  changes: Partial<TrainingJob> & { train?: Dataset } = {},
  settings: object = {},
): TrainingJob {
  return {
    model,
    task,
    methods,
    settings: trainSettingsSchema.parse({ epochs: 2, batchSize: 4, learningRate: 1e-2, ...settings }),
    train: tinyDataset(texts),
    validation: null,
    seed: 5,
    deviceConfig: cpuFloat32,
    files: null,
    resume: false,
    loadSubstitutions: async () => substitutions,
    attackTexts: async ({ examples }) => examples.map(reverseWords),
    ...changes,
  };
}

/** Reads the values of named tensors, to compare runs bitwise. */
export function readValues(named: ReadonlyMap<string, Tensor>): Record<string, number[]> {
  return Object.fromEntries([...named].map(([name, value]) => [name, [...value.toFloat32Array()]]));
}
