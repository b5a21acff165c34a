import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UserError } from "../../src/base/errors.js";
import {
  parseModelConfig,
  readModelConfig,
  readTemperMetadata,
  temperMetadataSchema,
  toConfigJson,
} from "../../src/models/config.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const roberta = {
  architectures: ["RobertaForMaskedLM"],
  attention_probs_dropout_prob: 0.1,
  bos_token_id: 0,
  hidden_act: "gelu",
  hidden_dropout_prob: 0.1,
  hidden_size: 768,
  initializer_range: 0.02,
  intermediate_size: 3072,
  layer_norm_eps: 1e-5,
  max_position_embeddings: 514,
  model_type: "roberta",
  num_attention_heads: 12,
  num_hidden_layers: 12,
  pad_token_id: 1,
  torch_dtype: "float16",
  type_vocab_size: 1,
  vocab_size: 50265,
};

test("reads RoBERTa, which does not use its first positions", () => {
  expect(parseModelConfig(roberta, "config.json")).toEqual({
    modelType: "roberta",
    vocabSize: 50265,
    hiddenSize: 768,
    embeddingSize: 768,
    tieWordEmbeddings: true,
    numHiddenLayers: 12,
    numAttentionHeads: 12,
    intermediateSize: 3072,
    activation: "gelu",
    maxPositionEmbeddings: 514,
    positionOffset: 2,
    maxLength: 512,
    typeVocabSize: 1,
    layerNormEps: 1e-5,
    hiddenDropout: 0.1,
    attentionDropout: 0.1,
    classifierDropout: null,
    padTokenId: 1,
    labels: ["LABEL_0", "LABEL_1"],
    initializerRange: 0.02,
    raw: roberta,
    floatKeys: new Set(),
  });
});

test("uses the defaults of transformers for omitted keys", () => {
  const bert = parseModelConfig({ model_type: "bert" }, "config.json");
  expect(bert).toMatchObject({
    vocabSize: 30522,
    maxPositionEmbeddings: 512,
    positionOffset: 0,
    maxLength: 512,
    layerNormEps: 1e-12,
    padTokenId: 0,
  });
  expect(parseModelConfig({ model_type: "bert", hidden_act: "gelu_pytorch_tanh" }, "config.json").activation).toBe(
    "gelu_new",
  );
  expect(parseModelConfig({ model_type: "roberta", classifier_dropout: 0.3 }, "config.json").classifierDropout).toBe(
    0.3,
  );
});

test("sorts labels by ID", () => {
  const id2label = Object.fromEntries(Array.from({ length: 11 }, (_, id) => [String(10 - id), `label ${10 - id}`]));
  expect(parseModelConfig({ model_type: "bert", id2label }, "config.json").labels[10]).toBe("label 10");
  expect(parseModelConfig({ model_type: "bert", id2label: { 0: 1, 1: 5 } }, "config.json").labels).toEqual(["1", "5"]);
  expect(parseModelConfig({ model_type: "bert", num_labels: 3 }, "config.json").labels).toEqual([
    "LABEL_0",
    "LABEL_1",
    "LABEL_2",
  ]);
});

test.each<[string, unknown, RegExp]>([
  ["an unsupported model type", { model_type: "t5" }, /model_type: expected one of bert, roberta.*, received "t5"$/],
  [
    "a decoder-only model",
    { model_type: "llama" },
    /received "llama"\. It is a decoder-only model: .* Use an encoder\./,
  ],
  [
    "an unknown decoder-only model",
    { model_type: "new", architectures: ["NewForCausalLM"] },
    /received "new"\. It is a decoder-only model/,
  ],
  ["no model type", {}, /model_type: expected one of bert, roberta.*, received nothing/],
  ["an array", [1], /expected a JSON object/],
  ["a negative size", { hidden_size: -3 }, /config.json: hidden_size: expected number to be >0, received -3/],
  ["a string as a size", { hidden_size: "768" }, /hidden_size: expected number, received "768"/],
  ["a huge number of labels", { num_labels: 1e15 }, /num_labels: .*received 1000000000000000/],
  [
    "a number of heads that does not divide the hidden size",
    { num_attention_heads: 7 },
    /num_attention_heads: expected a divisor of hidden_size, received 7/,
  ],
  [
    "relative position embeddings",
    { position_embedding_type: "relative_key" },
    /"absolute": relative position embeddings are not supported, received "relative_key"/,
  ],
  ["a decoder", { is_decoder: true }, /only encoders/],
  ["an unknown activation", { hidden_act: "mish" }, /hidden_act: expected one of "gelu".*received "mish"/],
  ["a dropout above 1", { hidden_dropout_prob: 10 }, /hidden_dropout_prob: .*<=1, received 10/],
  ["a label twice", { id2label: { 0: "x", 1: "x", 2: "y" } }, /id2label: .*received "x" twice/],
  ["a missing label", { id2label: { 0: "a", 2: "b" } }, /id2label: expected ids 0 to 1, 1 is missing/],
  [
    "a padding token outside the vocabulary",
    { pad_token_id: 30522 },
    /pad_token_id: expected less than vocab_size \(30522\)/,
  ],
  ["too few positions", { model_type: "roberta", max_position_embeddings: 2 }, /expected more than 2, received 2/],
])("rejects %s", (_, change, message) => {
  const data =
    typeof change === "object" && !Array.isArray(change) && Object.keys(change as object).length > 0
      ? { model_type: "bert", ...change }
      : change;
  expect(() => parseModelConfig(data, "config.json")).toThrow(message);
  expect(() => parseModelConfig(data, "config.json")).toThrow(UserError);
});

test("throws only UserError for any content", () => {
  const keys = [
    "hidden_size",
    "id2label",
    "num_labels",
    "pad_token_id",
    "max_position_embeddings",
    "hidden_act",
    "temper",
  ];
  const values = fc.dictionary(fc.constantFrom(...keys), fc.oneof(fc.jsonValue(), fc.integer(), fc.double()));
  fc.assert(
    fc.property(fc.constantFrom("bert", "roberta"), values, (type, value) => {
      try {
        readTemperMetadata(parseModelConfig({ model_type: type, ...value }, "config.json"), "config.json");
      } catch (error) {
        expect(error).toBeInstanceOf(UserError);
      }
    }),
    { numRuns: 1000 },
  );
});

test("reads config.json and locates syntax errors", async () => {
  writeFileSync(join(folder, "config.json"), JSON.stringify(roberta));
  expect((await readModelConfig(folder)).numHiddenLayers).toBe(12);
  writeFileSync(join(folder, "config.json"), '{\n "model_type": "bert",\n}');
  await expect(readModelConfig(folder)).rejects.toThrow(/config.json:3:1: expected a key in double quotes, found "}"/);
  await expect(readModelConfig(join(folder, "none"))).rejects.toThrow(
    /cannot read the model config .*config.json: there is no such/,
  );
});

const metadata = {
  format: 2 as const,
  tokenization: "word" as const,
  head: "mlp" as const,
  maxLength: 128,
  task: "sst2",
  labels: ["negative", "positive"],
};

test("keeps unknown keys, and adds the labels and Temper's block", () => {
  const config = parseModelConfig(
    { ...roberta, unknown: { deep: [1] }, num_labels: 5, problem_type: "regression" },
    "config.json",
  );
  const written = toConfigJson(config, metadata.labels, ["RobertaForSequenceClassification"], { temper: metadata });
  expect(written).toMatchObject({
    unknown: { deep: [1] },
    layer_norm_eps: 1e-5,
    architectures: ["RobertaForSequenceClassification"],
    id2label: { 0: "negative", 1: "positive" },
    label2id: { negative: 0, positive: 1 },
  });
  // The weights are float32, the labels determine their number, and with problem_type "regression"
  // transformers would compute a regression loss.
  expect(Object.keys(written)).not.toEqual(expect.arrayContaining(["torch_dtype"]));
  expect(Object.keys(written)).not.toEqual(expect.arrayContaining(["num_labels"]));
  expect(Object.keys(written)).not.toEqual(expect.arrayContaining(["problem_type"]));
  const again = parseModelConfig(JSON.parse(JSON.stringify(written)), "config.json");
  expect(again.labels).toEqual(metadata.labels);
  expect(readTemperMetadata(again, "config.json")).toEqual(temperMetadataSchema.parse(metadata));
  expect(readTemperMetadata(config, "config.json")).toBeNull();
});

test("rejects the block of another version", () => {
  const config = parseModelConfig({ model_type: "bert", temper: { ...metadata, format: 1 } }, "config.json");
  expect(() => readTemperMetadata(config, "config.json")).toThrow(
    /config.json: temper: format: expected 2; .*Update Temper\., received 1/,
  );
});
