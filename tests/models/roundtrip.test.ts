import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  forward,
  type LoadModelOptions,
  loadModel,
  type Model,
  saveModel,
  tokenizeFor,
  toModelInput,
} from "../../src/models/index.js";
import { openSafetensors } from "../../src/models/safetensors.js";
import { evalMode } from "../../src/nn/index.js";
import { free, getMemoryStats, noGrad, scope, type Tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import { findPython, runPython } from "../python.js";
import { temporaryFolder } from "../temporary.js";
import { expectedOf, folderOf, rewritten, tinyModels } from "./tiny.js";

const temporary = temporaryFolder();
let folders = 0;
const fresh = (): string => join(temporary, String(folders++));

const loaded: Model[] = [];
async function load(reference: string, options: LoadModelOptions = {}): Promise<Model> {
  const model = await loadModel(reference, options);
  loaded.push(model);
  return model;
}
afterAll(() => free(loaded.map((model) => model.weights)));

const texts = [["the film was a joy"], ["not bad", "a dull film"]];
function logitsOf(model: Model): number[] {
  const padded = padBatch(
    texts.map((text) => tokenizeFor(model, text)),
    model.tokenizer.special.padId,
  );
  return scope(() =>
    noGrad(() => [
      ...forward(model.architecture, model.weights, toModelInput(padded, "cpu"), evalMode).logits.toFloat32Array(),
    ]),
  );
}
const bytesOf = (model: Model): Map<string, string> =>
  new Map([...model.weights].map(([name, tensor]) => [name, Buffer.from(tensor.toBytes()).toString("base64")]));
const largestDifference = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((most, value, i) => Math.max(most, Math.abs(value - (b[i] as number))), 0);

describe.each(tinyModels)("%s", (name) => {
  const prefix = name === "bert-tiny" ? "bert." : "roberta.";

  it.each(["hf", "mlp"] as const)("load, save, load is the same model (%s head)", async (head) => {
    const labels = head === "hf" ? {} : { labels: ["no", "yes"] };
    const first = await load(folderOf(name), {
      head,
      maxLength: 20,
      tokenization: "word",
      task: "sst-2",
      seed: 3,
      ...labels,
    });
    const folder = fresh();
    await saveModel(folder, first);
    const second = await load(folder);
    expect(bytesOf(second)).toEqual(bytesOf(first));
    expect(logitsOf(second)).toEqual(logitsOf(first));
    const {
      folder: _f,
      reference: _r,
      weights: _w,
      tokenizer: _t,
      newlyInitialized: _d,
      architecture: shape,
      ...facts
    } = first;
    expect(second).toMatchObject(facts);
    expect(second.architecture).toEqual({ ...shape, config: expect.anything() });
    expect(second.tokenizer.hash).toBe(first.tokenizer.hash);
    expect(second.newlyInitialized).toEqual([]);
    // A third time, the files are the same to the byte.
    const again = fresh();
    await saveModel(again, second);
    expect(await readdir(again)).toEqual(await readdir(folder));
    for (const file of await readdir(folder))
      expect(await readFile(join(again, file))).toEqual(await readFile(join(folder, file)));
  });

  it("saves the weights it is given in the model's place", async () => {
    const model = await load(folderOf(name));
    const folder = fresh();
    const doubled = scope(() => new Map([...model.weights].map(([key, tensor]) => [key, noGrad(() => tensor.mul(2))])));
    await saveModel(folder, model, doubled);
    const [key, values] = [...doubled][3] as [string, Tensor];
    expect((await load(folder)).weights.get(key)?.toFloat32Array()).toEqual(values.toFloat32Array());
    free(doubled);
  });

  it("reads names without the prefix, and takes a head for fresh that is not there", async () => {
    const bare = (stored: string): string | null =>
      stored.startsWith("classifier") ? null : stored.startsWith(prefix) ? stored.slice(prefix.length) : stored;
    const folder = await rewritten(name, fresh(), { rename: bare });
    const model = await load(folder, { labels: ["no", "yes"], seed: 5 });
    const whole = await load(folderOf(name));
    expect(model.newlyInitialized.every((parameter) => parameter.startsWith("classifier."))).toBe(true);
    expect(model.newlyInitialized.length).toBeGreaterThan(0);
    expect(model.labels).toEqual(["no", "yes"]);
    for (const [key, tensor] of model.weights)
      if (!model.newlyInitialized.includes(key))
        expect(tensor.toFloat32Array()).toEqual(whole.weights.get(key)?.toFloat32Array());
  });

  it("draws a fresh head the same by seed, and another by another seed", async () => {
    const folder = await rewritten(name, fresh(), {
      rename: (stored) => (stored.startsWith("classifier") ? null : stored),
    });
    const headOf = async (seed: number, head: "hf" | "mlp"): Promise<Record<string, number[]>> => {
      const model = await load(folder, { seed, head, labels: ["a", "b"] });
      return Object.fromEntries(
        model.newlyInitialized.map((key) => [key, [...(model.weights.get(key) as Tensor).toFloat32Array()]]),
      );
    };
    for (const head of ["hf", "mlp"] as const) {
      const one = await headOf(1, head);
      expect(await headOf(1, head)).toEqual(one);
      expect(await headOf(2, head)).not.toEqual(one);
      for (const [key, values] of Object.entries(one)) {
        const spread = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
        if (key.endsWith(".bias")) expect(spread).toBe(0);
        else expect(spread / 0.3).toBeGreaterThan(0.6); // initializer_range
      }
    }
  });

  it("reads the names of the first years: LayerNorm.gamma and beta", async () => {
    const old = (stored: string): string =>
      stored.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
    const model = await load(await rewritten(name, fresh(), { rename: old }));
    expect(logitsOf(model)).toEqual(logitsOf(await load(folderOf(name))));
  });

  it.each([
    ["F16", 2e-2],
    ["BF16", 1e-1],
  ] as const)("reads %s checkpoints as float32", async (type, tolerance) => {
    const model = await load(await rewritten(name, fresh(), { type }));
    const whole = await load(folderOf(name));
    expect([...model.weights.values()].every((tensor) => tensor.dtype === "float32" && tensor.requiresGrad)).toBe(true);
    expect(logitsOf(model)).not.toEqual(logitsOf(whole));
    expect(largestDifference(logitsOf(model), logitsOf(whole))).toBeLessThan(tolerance);
  });

  it("refuses a checkpoint that lacks a tensor, naming it and its shape, and leaves nothing in memory", async () => {
    const missing = `${prefix}encoder.layer.1.output.dense.weight`;
    const folder = await rewritten(name, fresh(), { rename: (stored) => (stored === missing ? null : stored) });
    const before = getMemoryStats().tensors;
    await expect(loadModel(folder)).rejects.toThrow(`the checkpoint lacks ${missing} [16,24]`);
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("refuses a tensor of another shape, showing both", async () => {
    const turned = `${prefix}encoder.layer.0.intermediate.dense.weight`;
    const folder = await rewritten(name, fresh(), {
      reshape: (stored, shape) => (stored === turned ? shape.toReversed() : shape),
    });
    await expect(loadModel(folder)).rejects.toThrow(`${turned} has shape [16,24], config.json asks for [24,16]`);
  });
});

describe("labels", () => {
  it("that disagree are refused, showing both", async () => {
    await expect(loadModel(folderOf("bert-tiny"), { labels: ["no", "yes"], task: "sst-2" })).rejects.toThrow(
      /the task sst-2 disagree: the model has \[bad, mixed, good\], the task has \[no, yes\]/,
    );
    await expect(loadModel(folderOf("bert-tiny"), { labels: ["good", "mixed", "bad"] })).rejects.toThrow("disagree");
  });

  it("may differ in case, and be named where the checkpoint has none", async () => {
    expect((await load(folderOf("bert-tiny"), { labels: ["Bad", "Mixed", "Good"] })).labels).toEqual([
      "Bad",
      "Mixed",
      "Good",
    ]);
    const nameless = await rewritten("bert-tiny", fresh(), {
      config: { id2label: { 0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2" } },
    });
    expect((await load(nameless, { labels: ["x", "y", "z"] })).labels).toEqual(["x", "y", "z"]);
    await expect(loadModel(nameless, { labels: ["x", "y"] })).rejects.toThrow(
      "the model has [LABEL_0, LABEL_1, LABEL_2]",
    );
  });

  it("are the task's where the head is another than the checkpoint's", async () => {
    const model = await load(folderOf("bert-tiny"), { head: "mlp", labels: ["no", "yes"] });
    expect(model.labels).toEqual(["no", "yes"]);
    expect(model.newlyInitialized).toEqual([
      "head.dense.weight",
      "head.dense.bias",
      "head.out.weight",
      "head.out.bias",
    ]);
  });
});

it("a pooler is refused of a model that has none", async () => {
  await expect(loadModel(folderOf("roberta-random"), { pooling: "pooler" })).rejects.toThrow(
    "a roberta encoder has no pooler",
  );
});

it("the mlp head lies beside an encoder without prefix", async () => {
  const folder = fresh();
  await saveModel(folder, await load(folderOf("roberta-random"), { head: "mlp", labels: ["a", "b"] }));
  const namesIn = async (file: string): Promise<string[]> => {
    const open = await openSafetensors(join(folder, file));
    await open.close();
    return [...open.entries.keys()];
  };
  expect((await namesIn("head.safetensors")).sort()).toEqual([
    "head.dense.bias",
    "head.dense.weight",
    "head.out.bias",
    "head.out.weight",
  ]);
  expect((await namesIn("model.safetensors")).every((key) => /^(embeddings|encoder)\./.test(key))).toBe(true);
});

const python = findPython("torch", "transformers");

/** Loads folders in transformers and prints the logits, or the first token's last layer, of their texts. */
const program = `
import json, sys, torch, transformers
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
answers = []
for job in json.loads(sys.argv[1]):
    auto = transformers.AutoModelForSequenceClassification if job["head"] == "hf" else transformers.AutoModel
    model, info = auto.from_pretrained(job["folder"], output_loading_info=True)
    model.eval()
    rows = []
    with torch.no_grad():
        for ids, types in job["cases"]:
            given = dict(input_ids=torch.tensor([ids]))
            if model.config.type_vocab_size > 1: given["token_type_ids"] = torch.tensor([types])
            output = model(**given)
            rows += (output.logits if job["head"] == "hf" else output.last_hidden_state[:, 0])[0].tolist()
    keys = dict(missing=sorted(info["missing_keys"]), unexpected=sorted(info["unexpected_keys"]))
    answers.append(dict(values=rows, labels=model.config.id2label, **keys))
print(json.dumps(answers))
`;

interface Answer {
  values: number[];
  missing: string[];
  unexpected: string[];
  labels: Record<string, string>;
}

describe.skipIf(python === null)(
  "saved by us, loaded in transformers (skipped without a Python that has it: set TEMPER_PYTHON)",
  () => {
    const kinds = tinyModels.flatMap((name) => [{ name, head: "hf" } as const, { name, head: "mlp" } as const]);
    const ours: number[][] = [];
    let answers: Answer[] = [];

    beforeAll(async () => {
      const jobs: unknown[] = [];
      for (const { name, head } of kinds) {
        const { pairs } = await expectedOf(name);
        const model = await load(folderOf(name), head === "mlp" ? { head, labels: ["no", "yes"] } : {});
        const folder = fresh();
        await saveModel(folder, model);
        const encoded = pairs.texts.map((text) => tokenizeFor(model, text));
        jobs.push({ folder, head, cases: encoded.map((text) => [[...text.ids], [...text.tokenTypeIds]]) });
        scope(() =>
          noGrad(() => {
            const input = toModelInput(padBatch(encoded, model.tokenizer.special.padId), "cpu");
            const output = forward(model.architecture, model.weights, input, evalMode);
            ours.push([...(head === "hf" ? output.logits : output.features).toFloat32Array()]);
          }),
        );
      }
      answers = runPython(python as string, program, JSON.stringify(jobs)) as Answer[];
    });

    it.each(kinds.map((kind, i) => ({ ...kind, i })))("$name, $head head", ({ head, i }) => {
      const { values, missing, unexpected, labels } = answers[i] as Answer;
      expect(values).toHaveLength((ours[i] as number[]).length);
      expect(largestDifference(ours[i] as number[], values)).toBeLessThan(1e-5);
      expect(unexpected).toEqual([]);
      // A plain BERT has a pooler, which the mlp head does not use.
      expect(missing.filter((key) => !key.startsWith("pooler."))).toEqual([]);
      if (head === "hf") expect(labels).toEqual({ "0": "bad", "1": "mixed", "2": "good" });
    });
  },
);
