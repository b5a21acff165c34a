import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import type { SafetensorsTensor } from "../../src/models/checkpoint/safetensors-writer.js";
import { hashModelFolder, loadModel, parseModelConfig, saveModel, toModelInput } from "../../src/models/index.js";
import { free, getMemoryStats, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { LowPrecisionWeights } from "../../src/train/mixed-precision.js";
import { invoke } from "../cli/invoke.js";
import { tinyConfig, writeTinyModel } from "../cli/tiny-model.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const labels = ["negative", "positive"];
let classifier: string;

beforeAll(async () => {
  const model = await loadModel(await writeTinyBert(join(folder, "encoder")), { labels });
  classifier = join(folder, "classifier");
  await saveModel(classifier, model);
  free(model.weights);
  // A model of another program has no hash of its weights, which would be found first.
  const config = join(classifier, "config.json");
  const { temper, ...rest } = JSON.parse(readFileSync(config, "utf8")) as { temper: object };
  writeFileSync(config, JSON.stringify({ ...rest, temper: { ...temper, sha256: undefined } }));
});

/** Copies the classifier and replaces the last value of its last tensor. */
function damage(name: string, value: number): string {
  const copy = join(folder, name);
  cpSync(classifier, copy, { recursive: true });
  const path = join(copy, "model.safetensors");
  const bytes = readFileSync(path);
  bytes.writeFloatLE(value, bytes.length - 4);
  writeFileSync(path, bytes);
  return copy;
}

describe("NaN weights are not silent", () => {
  const data = (): string => writeReviews(join(folder, "reviews.tsv"), 20);

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])("%d is found on load", async (value) => {
    const model = damage(`with ${value}`, value);
    for (const [argv, stdin] of [
      [["predict", model], "a good film\n"],
      [["evaluate", model, "--data", data()], ""],
      [["attack", model, "--data", data(), "--attack", "random", "--substitutions", "wordnet"], ""],
      [["train", "--model", model, "--data", data(), "--out", join(folder, "never")], ""],
    ] as const) {
      const { code, stdout, stderr } = await invoke([...argv, "--quiet"], stdin);
      expect(stderr).toMatch(/model\.safetensors: tensor \S+ contains NaN or infinity\. The file is damaged/);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    }
  });

  test("finite weights that overflow are found in the outputs", async () => {
    const model = join(folder, "overflow");
    cpSync(classifier, model, { recursive: true });
    const path = join(model, "model.safetensors");
    const bytes = readFileSync(path);
    const headerBytes = Number(bytes.readBigUInt64LE());
    const header = JSON.parse(bytes.toString("utf8", 8, 8 + headerBytes)) as {
      [name: string]: { data_offsets: number[] };
    };
    const [begin, end] = header["bert.encoder.layer.0.output.LayerNorm.weight"]!.data_offsets as [number, number];
    for (let at = begin; at < end; at += 4) bytes.writeFloatLE(3e38, 8 + headerBytes + at);
    writeFileSync(path, bytes);
    for (const argv of [
      ["predict", model],
      ["evaluate", model, "--data", data()],
    ]) {
      const { code, stdout, stderr } = await invoke([...argv, "--quiet"], "a good film\n");
      expect(stderr).toContain("The model computes NaN or infinity. Its weights are damaged");
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    }
  });
});

describe("the model hash", () => {
  test("covers every shard of the index, whatever its name", async () => {
    const sharded = join(folder, "sharded");
    cpSync(classifier, sharded, { recursive: true });
    renameSync(join(sharded, "model.safetensors"), join(sharded, "part-a.safetensors"));
    const header = readFileSync(join(sharded, "part-a.safetensors"));
    const names = Object.keys(JSON.parse(header.toString("utf8", 8, 8 + Number(header.readBigUInt64LE()))) as object);
    const map = Object.fromEntries(
      names.filter((name) => !name.startsWith("__")).map((n) => [n, "part-a.safetensors"]),
    );
    writeFileSync(join(sharded, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    const before = await hashModelFolder(sharded);
    const bytes = Buffer.from(header);
    bytes.writeFloatLE(0.125, bytes.length - 4);
    writeFileSync(join(sharded, "part-a.safetensors"), bytes);
    expect(await hashModelFolder(sharded)).not.toBe(before);
    await using loaded = await loadClassifier(sharded, { device: "cpu" });
    expect(loaded.labels).toEqual(labels);
  });
});

describe("sizes and IDs of a model are checked", () => {
  test("2147483647 layers are rejected before memory is used", () => {
    expect(() => parseModelConfig({ ...tinyConfig, num_hidden_layers: 2 ** 31 - 1 }, "config.json")).toThrow(
      /config\.json: num_hidden_layers: expected .*1000, received 2147483647/,
    );
  });

  test("token, type and position indices beyond the tables are rejected on the host", () => {
    const config = parseModelConfig(tinyConfig, "config.json");
    const convert = (ids: number[], types: number[]) => () =>
      toModelInput(
        padBatch([{ ids: Int32Array.from(ids), tokenTypeIds: Int32Array.from(types), truncated: false }], 0),
        config,
        "cpu",
      );
    expect(convert([2, 5000, 3], [0, 0, 0])).toThrow("produces the token ID 5000, but the model has only 0 to 9");
    expect(convert([2, -1, 3], [0, 0, 0])).toThrow("token ID -1");
    expect(convert([2, 5, 3], [0, 7, 0])).toThrow("produces the type ID 7, but the model has only 0 to 1");
    expect(convert(new Array(13).fill(1), new Array(13).fill(0))).toThrow("sequence length: expected at most 12");
  });
});

describe("extreme options are rejected with a message", () => {
  test.each([
    ["train.learningRate=1e308", /train\.learningRate: expected .*1e\+30, received 1e\+308/],
    ["train.adamBeta1=1", /train\.adamBeta1: expected .*<1, received 1/],
    ["train.adamBeta2=1", /train\.adamBeta2: expected .*<1, received 1/],
    ["train.adamEpsilon=1e-300", /train\.adamEpsilon: expected .*, received 1e-300/],
    ["maxLength=1", /maxLength: expected at least 3 \(2 special tokens and one of the text\), received 1/],
  ])("%s", async (setting, message) => {
    const out = join(folder, "extreme");
    const data = writeReviews(join(folder, "reviews.tsv"), 40);
    const argv = ["train", "--model", join(folder, "encoder"), "--data", data, "--out", out, "--set", setting];
    const { code, stderr } = await invoke([...argv, "--quiet", "--device", "cpu"]);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
    expect(readdirSync(folder)).not.toContain("extreme");
  });

  test("130,000 labels do not exhaust the stack", async () => {
    const many = await loadModel(join(folder, "encoder"), {
      labels: Array.from({ length: 130_000 }, (_, i) => `l${i}`),
    });
    const model = join(folder, "many");
    await saveModel(model, many);
    free(many.weights);
    await using loaded = await loadClassifier(model, { device: "cpu", threads: 1 });
    expect((await loaded.classify(["a good film"]))[0]!.label).toMatch(/^l\d+$/);
  });
});

test("tokenizer files are synced before they count as written", async () => {
  // A copy that fails halfway must leave no file under the final name.
  const source = join(folder, "source");
  cpSync(classifier, source, { recursive: true });
  const target = join(folder, "target");
  mkdirSync(join(target, "vocab.txt"), { recursive: true });
  const model = await loadModel(source);
  await expect(saveModel(target, model)).rejects.toThrow(/cannot write .*vocab\.txt/);
  free(model.weights);
  expect(readdirSync(target).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  expect(readdirSync(target)).not.toContain("config.json");
});

test("bfloat16 copies are freed if memory runs out while they are created", async () => {
  const model = await loadModel(join(folder, "encoder"), { labels });
  const huge = tensor([0]).expand(2 ** 44);
  const before = getMemoryStats().tensors;
  const weights = new Map([...model.weights, ["huge", huge]]);
  expect(() => new LowPrecisionWeights({ architecture: model.architecture, weights }, "bfloat16")).toThrow(
    "does not fit",
  );
  expect(getMemoryStats().tensors).toBe(before);
  free(model.weights);
});

test("a tiny model with one damaged tensor frees what it had read", async () => {
  const change = (tensors: SafetensorsTensor[]): SafetensorsTensor[] =>
    tensors.map((each, i) =>
      i === tensors.length - 1 ? { ...each, bytes: () => new Uint8Array(each.bytes().length).fill(255) } : each,
    );
  const path = await writeTinyModel(join(folder, "half"), change);
  const before = getMemoryStats().tensors;
  await expect(loadModel(path)).rejects.toThrow("contains NaN or infinity");
  expect(getMemoryStats().tensors).toBe(before);
});
