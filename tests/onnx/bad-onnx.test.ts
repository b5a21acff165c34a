import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { evaluate } from "../../src/actions/evaluate.js";
import { exportModel } from "../../src/actions/export.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { encodeOnnx, type OnnxGraph, type OnnxValue } from "../../src/onnx/onnx-file.js";
import { tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const exported = join(folder, "exported");
let run: string;
let count = 0;

beforeAll(async () => {
  ({ run } = await tinyVictim(join(folder, "victim"), { tokenization: "subword" }));
  await exportModel({ model: run, out: exported, threads: 1 });
});

/** A copy of the exported model with changes. */
function change(edit: (folder: string) => void): string {
  const copy = join(folder, `copy-${count++}`);
  cpSync(exported, copy, { recursive: true });
  edit(copy);
  return copy;
}

const dynamic = ["batch_size", "sequence_length"];
const inputIds: OnnxValue = { name: "input_ids", type: "int64", shape: dynamic };

/** A graph whose output is its first input as float32, which is no classifier. */
function createGraph(inputs: readonly OnnxValue[], output = "logits"): OnnxGraph {
  const node = { operator: "Cast", inputs: [inputs[0]!.name], outputs: [output], attributes: { to: 1 } };
  const outputs = [{ name: output, type: "float32" as const, shape: dynamic }];
  return { inputs, outputs, nodes: [node], initializers: new Map() };
}

function replaceGraph(graph: OnnxGraph): string {
  return change((copy) => writeFileSync(join(copy, "onnx/model.onnx"), encodeOnnx(graph, "test")));
}

function editJson(path: string, edit: (json: Record<string, unknown>) => void): void {
  const json = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
  edit(json);
  writeFileSync(path, JSON.stringify(json));
}

const cases: Record<string, [() => string, RegExp]> = {
  "another input": [
    () => replaceGraph(createGraph([inputIds, { ...inputIds, name: "pixel_values" }])),
    /model\.onnx: expected the inputs input_ids, attention_mask, token_type_ids .* received pixel_values/,
  ],
  "an input of floats": [
    () => replaceGraph(createGraph([{ ...inputIds, type: "float32" }])),
    /received input_ids \(float32\)/,
  ],
  "no input_ids": [
    () => replaceGraph(createGraph([{ ...inputIds, name: "attention_mask" }])),
    /expected an input input_ids, received attention_mask/,
  ],
  "fixed sizes": [
    () => replaceGraph(createGraph([{ ...inputIds, shape: [1, 128] }])),
    /expected an input input_ids of any size .* received \[1, 128\]\. Export the model with dynamic axes/,
  ],
  "another output": [
    () => replaceGraph(createGraph([inputIds], "last_hidden_state")),
    /expected an output logits \(float32\), received last_hidden_state \(float32\)/,
  ],
  "missing labels": [
    () =>
      change((copy) => {
        writeFileSync(join(copy, "onnx/model.onnx"), encodeOnnx(createGraph([inputIds]), "test"));
        editJson(join(copy, "config.json"), (json) => {
          for (const key of ["id2label", "label2id", "temper"]) delete json[key];
        });
      }),
    /the model has 5 logits per text, but config\.json has 2 labels \(LABEL_0, LABEL_1\)\. Name each class in id2label/,
  ],
  "a damaged file": [
    () => change((copy) => writeFileSync(join(copy, "onnx/model.onnx"), "not a graph")),
    /ONNX Runtime cannot load the file: .* The file may be damaged or incomplete: export or download it again/,
  ],
  "half a file": [
    () =>
      change((copy) => {
        const bytes = readFileSync(join(copy, "onnx/model.onnx"));
        writeFileSync(join(copy, "onnx/model.onnx"), bytes.subarray(0, bytes.length / 2));
      }),
    /The file may be damaged or incomplete/,
  ],
  "a new opset": [
    () =>
      change((copy) => {
        // The version of the operators is the last byte of our files.
        const bytes = readFileSync(join(copy, "onnx/model.onnx"));
        expect(bytes.at(-1)).toBe(17);
        bytes[bytes.length - 1] = 99;
        writeFileSync(join(copy, "onnx/model.onnx"), bytes);
      }),
    /[Oo]pset 99.* Update onnxruntime-node, or export the model with an older opset/,
  ],
  "a tokenizer without its vocabulary": [
    () =>
      change((copy) =>
        editJson(join(copy, "tokenizer.json"), (json) => delete (json.model as { vocab?: unknown }).vocab),
      ),
    /tokenizer\.json: model.*vocab/,
  ],
  "no tokenizer": [() => change((copy) => rmSync(join(copy, "tokenizer.json"))), /no tokenizer found/],
  "another precision": [() => exported, /--precision int8: an ONNX model has the precision of its file, here fp32/],
  "an unknown backend": [() => exported, /TEMPER_BACKEND: expected onnx or libtorch, received "gpu"/],
};

test.each(Object.entries(cases))("%s gives a clear message", async (name, [create, message]) => {
  const model = create();
  if (name === "an unknown backend") vi.stubEnv("TEMPER_BACKEND", "gpu");
  const load =
    name === "another precision"
      ? attack({ model, attacks: ["pwws"], precision: "int8", threads: 1 })
      : loadClassifier(model, { threads: 1 });
  const error = await load.then(
    () => null,
    (reason: unknown) => reason as Error,
  );
  vi.unstubAllEnvs();
  expect(error).toMatchObject({ name: "UserError", message: expect.stringMatching(message) });
});

test("model.onnx may be next to config.json, and needs no block of Temper", async () => {
  const flat = join(folder, "flat");
  mkdirSync(flat);
  for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"])
    cpSync(join(exported, name), join(flat, name.replace("onnx/", "")));
  editJson(join(flat, "config.json"), (json) => delete json.temper);
  await using first = await loadClassifier(exported, { threads: 1 });
  await using second = await loadClassifier(flat, { threads: 1 });
  const texts = ["the film was good", "a dull plot"];
  expect(await second.classify(texts)).toEqual(await first.classify(texts));
  await expect(evaluate({ model: flat, threads: 1 })).rejects.toThrow("Expected a task");
});

test("a folder with weights uses libtorch unless TEMPER_BACKEND is onnx", async () => {
  const both = join(folder, "both");
  cpSync(exported, both, { recursive: true });
  for (const name of ["model.safetensors", "config.json"]) cpSync(join(run, "model", name), join(both, name));
  await using weights = await loadClassifier(both, { device: "cpu", threads: 1 });
  expect(weights.model.session).toBeUndefined();
  vi.stubEnv("TEMPER_BACKEND", "onnx");
  await using onnx = await loadClassifier(both, { threads: 1 });
  vi.unstubAllEnvs();
  expect(onnx.model.session?.engine).toMatch(/^onnxruntime-node \d/);
});
