import { modelParameters, parseConfig } from "../../src/models/index.js";
import type { Model } from "../../src/models/model.js";
import type { Task } from "../../src/tasks/task.js";
import { keep, Rng, type Tensor, tensor } from "../../src/tensor/index.js";
import type { Tokenizer, WordEncoded } from "../../src/text/encoding.js";
import { substitutionTable } from "../../src/text/substitutions.js";
import { type Dataset, type Job, type Layer, onCpu, trainSettingsSchema } from "../../src/train/index.js";

// Training at its smallest: words w4 to w15 are the tokens 4 to 15, 2 and 3 begin and end a text, 0 pads it.
const special = { start: 2, end: 3, pad: 0, unknown: 1, mask: null };

function encodeWords(texts: readonly string[]): WordEncoded {
  const words = texts.flatMap((text) => text.split(" "));
  const ids = Int32Array.from([special.start, ...words.map((word) => Number(word.slice(1))), special.end]);
  return {
    ids,
    types: new Int32Array(ids.length),
    truncated: false,
    words,
    fields: new Uint8Array(words.length),
    positions: Int32Array.from(words.keys(), (i) => i + 1),
  };
}

const tokenizer: Tokenizer = {
  kind: "wordpiece",
  vocabularySize: 16,
  special,
  hash: "tiny",
  encode: encodeWords,
  encodeWords,
  wordToken: (word) => Number(word.slice(1)),
  tokens: (ids) => Array.from(ids, (id) => `w${id}`),
};

const usual = {
  model_type: "bert",
  vocab_size: 16,
  hidden_size: 8,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  intermediate_size: 16,
  max_position_embeddings: 12,
};

/** A BERT of two narrow layers; its weights are drawn, or given. */
export function tinyModel(config: object = usual, weights?: ReadonlyMap<string, Tensor>): Model {
  const rng = new Rng("tiny");
  const shape = { config: parseConfig(config, "tiny"), head: "hf", feature: "token", classes: 3 } as const;
  const drawn = (name: string, size: readonly number[]): Tensor => {
    const stream = rng.fork(name);
    const middle = name.endsWith("LayerNorm.weight") ? 1 : 0;
    const values = Float32Array.from({ length: size.reduce((all, each) => all * each, 1) }, () => middle + 0.3 * stream.normal());
    return tensor(values, size);
  };
  return {
    shape,
    weights: new Map(
      [...modelParameters(shape)].map(([name, size]) => [name, keep(weights?.get(name) ?? drawn(name, size)).requireGrad()]),
    ),
    tokenizer,
    encoding: "word",
    maxLength: 12,
    labels: ["a", "b", "c"],
    task: null,
    folder: ".",
    reference: "tiny",
    fresh: [],
  };
}

/** Texts as token ids, without the special ones where `words` are given. */
export function tinyDataset(texts: readonly { readonly ids: readonly number[]; readonly label: number }[]): Dataset {
  const items = texts.map(({ ids, label }, i) => {
    const text = ids
      .slice(1, -1)
      .map((id) => `w${id}`)
      .join(" ");
    return { example: { id: String(i), texts: [text], label }, encoded: encodeWords([text]) };
  });
  return { items, lengths: Int32Array.from(items, (item) => item.encoded.ids.length), truncated: 0 };
}

const task: Task = {
  name: "tiny",
  labels: ["a", "b", "c"],
  fields: ["text"],
  openFields: [0],
  metrics: ["accuracy"],
  splits: ["train"],
  selectSplit: "select",
  reportSplit: "dev",
  load: async () => [],
};

/** Every word may stand for the two after it. */
const substitutions = substitutionTable(
  Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`w${i + 4}`, [`w${((i + 1) % 12) + 4}`, `w${((i + 2) % 12) + 4}`]])),
  "tiny table",
);

/** Twelve texts of one to six words. */
export const texts = Array.from({ length: 12 }, (_, i) => {
  const rng = new Rng(i);
  const words = Array.from({ length: 1 + rng.integer(6) }, () => 4 + rng.integer(12));
  return { ids: [special.start, ...words, special.end], label: i % 3 };
});

/** A run over them: four texts a batch, with dropout, at a rate that moves the weights. */
export function tinyJob(
  model: Model,
  layers: readonly Layer[],
  changes: Partial<Job> & { train?: Dataset } = {},
  settings: object = {},
): Job {
  return {
    model,
    task,
    layers,
    settings: trainSettingsSchema.parse({ epochs: 2, batchSize: 4, learningRate: 1e-2, ...settings }),
    train: tinyDataset(texts),
    selection: null,
    seed: 5,
    placement: onCpu,
    folder: null,
    resume: false,
    substitutions: async () => substitutions,
    ...changes,
  };
}

/** Every value of named tensors, to compare runs to the bit. */
export function valuesOf(named: ReadonlyMap<string, Tensor>): Record<string, number[]> {
  return Object.fromEntries([...named].map(([name, value]) => [name, [...value.floats()]]));
}
