import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import {
  extractFeatures,
  type LoadModelOptions,
  loadModel,
  type Model,
  saveModel,
  toModelInput,
} from "../../src/models/index.js";
import { evalMode } from "../../src/nn/index.js";
import { free, getMemoryStats, noGrad, scope, type Tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { writeFamilyClassifier } from "./family-models.js";
import { computeLogits, getFixtureFolder, rewriteModel, tinyModels } from "./tiny.js";

const temporary = temporaryFolder();
let folders = 0;
const newFolder = (): string => join(temporary, String(folders++));

const loaded: Model[] = [];
async function load(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const model = await loadModel(reference, options);
  loaded.push(model);
  return model;
}
afterAll(() => free(loaded.map((model) => model.weights)));

const texts = [["the film was a joy"], ["not bad", "a dull film"]];
const readBytes = (model: Model): Map<string, string> =>
  new Map([...model.weights].map(([name, tensor]) => [name, Buffer.from(tensor.toBytes()).toString("base64")]));

describe.each(tinyModels)("%s", (name) => {
  const prefix = name === "bert-tiny" ? "bert." : "roberta.";

  it.each(["hf", "mlp"] as const)("saving and loading gives the same model (%s head)", async (head) => {
    const labels = head === "hf" ? {} : { labels: ["no", "yes"] };
    const first = await load(getFixtureFolder(name), {
      head,
      maxLength: 20,
      tokenization: "word",
      task: "sst-2",
      seed: 3,
      ...labels,
    });
    const folder = newFolder();
    await saveModel(folder, first);
    const second = await load(folder);
    expect(readBytes(second)).toEqual(readBytes(first));
    expect(computeLogits(second, texts)).toEqual(computeLogits(first, texts));
    const {
      folder: _f,
      reference: _r,
      weights: _w,
      tokenizer: _t,
      newlyInitialized: _d,
      architecture,
      ...rest
    } = first;
    expect(second).toMatchObject(rest);
    expect(second.architecture).toEqual({ ...architecture, config: expect.anything() });
    expect(second.tokenizer.hash).toBe(first.tokenizer.hash);
    expect(second.newlyInitialized).toEqual([]);
    // Saving again gives bitwise identical files.
    const again = newFolder();
    await saveModel(again, second);
    expect(await readdir(again)).toEqual(await readdir(folder));
    for (const file of await readdir(folder))
      expect(await readFile(join(again, file))).toEqual(await readFile(join(folder, file)));
  });

  it("saves other weights if they are passed", async () => {
    const model = await load(getFixtureFolder(name));
    const folder = newFolder();
    const doubled = scope(() => new Map([...model.weights].map(([key, tensor]) => [key, noGrad(() => tensor.mul(2))])));
    await saveModel(folder, model, doubled);
    const [key, values] = [...doubled][3] as [string, Tensor];
    expect((await load(folder)).weights.get(key)?.toFloat32Array()).toEqual(values.toFloat32Array());
    free(doubled);
  });

  it("reads names without the prefix, and initializes a missing head", async () => {
    const removePrefix = (stored: string): string | null =>
      stored.startsWith("classifier") ? null : stored.startsWith(prefix) ? stored.slice(prefix.length) : stored;
    const folder = await rewriteModel(name, newFolder(), { rename: removePrefix });
    const model = await load(folder, { labels: ["no", "yes"], seed: 5 });
    const original = await load(getFixtureFolder(name));
    expect(model.newlyInitialized.every((parameter) => parameter.startsWith("classifier."))).toBe(true);
    expect(model.newlyInitialized.length).toBeGreaterThan(0);
    expect(model.labels).toEqual(["no", "yes"]);
    for (const [key, tensor] of model.weights)
      if (!model.newlyInitialized.includes(key))
        expect(tensor.toFloat32Array()).toEqual(original.weights.get(key)?.toFloat32Array());
  });

  it("the seed determines a newly initialized head", async () => {
    const folder = await rewriteModel(name, newFolder(), {
      rename: (stored) => (stored.startsWith("classifier") ? null : stored),
    });
    const initHead = async (seed: number, head: "hf" | "mlp"): Promise<Record<string, number[]>> => {
      const model = await load(folder, { seed, head, labels: ["a", "b"] });
      return Object.fromEntries(
        model.newlyInitialized.map((key) => [key, [...(model.weights.get(key) as Tensor).toFloat32Array()]]),
      );
    };
    for (const head of ["hf", "mlp"] as const) {
      const one = await initHead(1, head);
      expect(await initHead(1, head)).toEqual(one);
      expect(await initHead(2, head)).not.toEqual(one);
      for (const [key, values] of Object.entries(one)) {
        const std = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
        if (key.endsWith(".bias")) expect(std).toBe(0);
        else expect(std / 0.3).toBeGreaterThan(0.6); // initializer_range
      }
    }
  });

  it("reads the old names LayerNorm.gamma and LayerNorm.beta", async () => {
    const toOldName = (stored: string): string =>
      stored.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
    const model = await load(await rewriteModel(name, newFolder(), { rename: toOldName }));
    expect(computeLogits(model, texts)).toEqual(computeLogits(await load(getFixtureFolder(name)), texts));
  });

  it.each([
    ["F16", "float16"],
    ["BF16", "bfloat16"],
  ] as const)("reads %s checkpoints as float32", async (type, format) => {
    const model = await load(await rewriteModel(name, newFolder(), { type }));
    const original = await load(getFixtureFolder(name));
    expect([...model.weights.values()].every((tensor) => tensor.dtype === "float32" && tensor.requiresGrad)).toBe(true);
    expect(computeLogits(model, texts)).not.toEqual(computeLogits(original, texts));
    // Each weight is rounded once.
    expectClose(computeLogits(model, texts), computeLogits(original, texts), { format });
  });

  it("rejects a checkpoint that lacks a tensor, names it and its shape, and frees the others", async () => {
    const missing = `${prefix}encoder.layer.1.output.dense.weight`;
    const folder = await rewriteModel(name, newFolder(), { rename: (stored) => (stored === missing ? null : stored) });
    const before = getMemoryStats().tensors;
    await expect(loadModel(folder)).rejects.toThrow(`The checkpoint lacks ${missing} [16,24]`);
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("rejects a tensor of another shape and shows both shapes", async () => {
    const transposed = `${prefix}encoder.layer.0.intermediate.dense.weight`;
    const folder = await rewriteModel(name, newFolder(), {
      reshape: (stored, shape) => (stored === transposed ? shape.toReversed() : shape),
    });
    await expect(loadModel(folder)).rejects.toThrow(
      `${transposed} has shape [16,24], but config.json requires [24,16]`,
    );
  });
});

describe("labels", () => {
  it("that differ from the model's give a new head, seeded like that of a model without one, and one warning", async () => {
    const warnings: string[] = [];
    const options = { labels: ["no", "yes"], seed: 3, task: "sst-2" };
    const model = await load(getFixtureFolder("bert-tiny"), {
      ...options,
      onEvent: (event) => event.type === "warning" && warnings.push(event.message),
    });
    expect(warnings).toEqual([expect.stringMatching(/bert-tiny is not used: .*\[bad, mixed, good\].*\[no, yes\]/)]);
    expect(model.newlyInitialized).toEqual(["classifier.weight", "classifier.bias"]);
    expect(model).toMatchObject({ labels: ["no", "yes"], task: "sst-2" });
    const bare = await rewriteModel("bert-tiny", newFolder(), {
      rename: (name) => (name.startsWith("classifier.") ? null : name),
    });
    expect(readBytes(model)).toEqual(readBytes(await load(bare, options)));
    // The order of the labels decides what an output means.
    expect((await load(getFixtureFolder("bert-tiny"), { labels: ["good", "mixed", "bad"] })).newlyInitialized).toEqual(
      model.newlyInitialized,
    );
  });

  it("that differ from the model's are rejected with headFromModel, and so is a model without a head", async () => {
    const reference = getFixtureFolder("bert-tiny");
    await expect(loadModel(reference, { headFromModel: true, labels: ["no", "yes"], task: "sst-2" })).rejects.toThrow(
      /bert-tiny \[bad, mixed, good\] and the task sst-2 \[no, yes\] differ/,
    );
    await expect(loadModel(reference, { headFromModel: true, labels: ["good", "mixed", "bad"] })).rejects.toThrow(
      "differ",
    );
    await expect(loadModel(reference, { headFromModel: true, head: "mlp" })).rejects.toThrow(
      "has no classification head",
    );
    const kept = await load(reference, { headFromModel: true, labels: ["bad", "mixed", "good"] });
    expect(kept.newlyInitialized).toEqual([]);
  });

  it("may differ in case, and match generic labels of a checkpoint", async () => {
    expect((await load(getFixtureFolder("bert-tiny"), { labels: ["Bad", "Mixed", "Good"] })).labels).toEqual([
      "Bad",
      "Mixed",
      "Good",
    ]);
    const generic = await rewriteModel("bert-tiny", newFolder(), {
      config: { id2label: { 0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2" } },
    });
    expect((await load(generic, { labels: ["x", "y", "z"] })).labels).toEqual(["x", "y", "z"]);
    await expect(loadModel(generic, { labels: ["x", "y"], headFromModel: true })).rejects.toThrow(
      "[LABEL_0, LABEL_1, LABEL_2] and the task [x, y] differ",
    );
  });

  it("of the task are used for a new head", async () => {
    const model = await load(getFixtureFolder("bert-tiny"), { head: "mlp", labels: ["no", "yes"] });
    expect(model.labels).toEqual(["no", "yes"]);
    expect(model.newlyInitialized).toEqual([
      "head.dense.weight",
      "head.dense.bias",
      "head.out.weight",
      "head.out.bias",
    ]);
  });
});

it("a RoBERTa without a pooler gets a new one, as in RIFT's released code", async () => {
  const model = await loadModel(getFixtureFolder("roberta-random"), { pooling: "pooler", head: "mlp" });
  expect(model.newlyInitialized).toContain("roberta.pooler.dense.weight");
  const encoding = model.tokenizer.encode(["a good film"], 16);
  const features = (pooling: "pooler" | "cls"): Float32Array =>
    scope(() => {
      const input = toModelInput(padBatch([encoding], model.tokenizer.special.padId), model.architecture.config, "cpu");
      return noGrad(() =>
        extractFeatures({ ...model.architecture, pooling }, model.weights, input, evalMode).toFloat32Array(),
      );
    });
  const [cls, pooled] = [features("cls"), features("pooler")];
  const weight = model.weights.get("roberta.pooler.dense.weight")!.toFloat32Array();
  const expected = Math.tanh(cls.reduce((sum, value, i) => sum + value * weight[i]!, 0));
  expectClose(pooled[0]!, expected, { terms: cls.length });
  free(model.weights);
});

it("headInit: uniform initializes a new head like PyTorch's linear layers", async () => {
  const options = { head: "mlp", labels: ["a", "b"] } as const;
  const model = await loadModel(getFixtureFolder("roberta-random"), { ...options, headInit: "uniform" });
  const hidden = model.architecture.config.hiddenSize;
  for (const [name, inputs] of [
    ["head.dense.weight", hidden],
    ["head.dense.bias", hidden],
    ["head.out.weight", 256],
    ["head.out.bias", 256],
  ] as const) {
    const largest = Math.max(...model.weights.get(name)!.toFloat32Array().map(Math.abs));
    expect(largest * Math.sqrt(inputs), name).toBeLessThanOrEqual(1.0001);
    expect(largest * Math.sqrt(inputs), name).toBeGreaterThan(name === "head.out.bias" ? 0 : 0.9);
  }
  free(model.weights);
  const normal = await loadModel(getFixtureFolder("roberta-random"), options);
  expect(
    normal.weights
      .get("head.dense.bias")!
      .toFloat32Array()
      .every((value) => value === 0),
  ).toBe(true);
  free(normal.weights);
});

it("the mlp head is saved separately from an encoder without prefix", async () => {
  const folder = newFolder();
  await saveModel(folder, await load(getFixtureFolder("roberta-random"), { head: "mlp", labels: ["a", "b"] }));
  const readNames = async (file: string): Promise<string[]> => {
    const open = await openSafetensors(join(folder, file));
    await open.close();
    return [...open.entries.keys()];
  };
  expect((await readNames("head.safetensors")).sort()).toEqual([
    "head.dense.bias",
    "head.dense.weight",
    "head.out.bias",
    "head.out.weight",
  ]);
  expect((await readNames("model.safetensors")).every((key) => /^(embeddings|encoder)\./.test(key))).toBe(true);
});

it("keeps floats such as 2.0 in the config, because transformers rejects 2 for a float", async () => {
  const [source, saved] = [newFolder(), newFolder()];
  await saveModel(saved, await load(writeFamilyClassifier(source, "modernbert")));
  const findFloats = async (folder: string): Promise<string[]> =>
    (await readFile(join(folder, "config.json"), "utf8")).match(/"\w+": \d+\.0\b/g)!.sort();
  const floats = await findFloats(source);
  expect(floats).toContain('"rope_theta": 160000.0');
  expect(await findFloats(saved)).toEqual(floats);
});
