import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { toMethodSpecs } from "../../src/runs/config.js";
import { parseSpec } from "../../src/spec.js";
import { getDefaultRunFolder, getMethodName } from "../../src/runs/names.js";
import { readRunConfig } from "../../src/runs/read-config.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

function yaml(text: string): string {
  const path = join(folder, "config.yaml");
  writeFileSync(path, text);
  return path;
}

const messageOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: Error) => error.message,
  );

test("a file, flags over it, --set over both, defaults beneath", async () => {
  const file = yaml("model: some/model\ntask: sst2\nseed: 4\ntrain:\n  epochs: 5\n  batchSize: 16\n");
  const config = await readRunConfig({
    file,
    flags: { "train.epochs": 2, task: "rte", limit: undefined },
    set: [
      "train.epochs=1.5",
      "train.lrScheduler=[0.1, 0.55, 1]",
      "train.learningRate=3e-5",
      "train.maxGradNorm=null",
      "train.dropout=false",
    ],
  });
  expect(config).toMatchObject({ model: "some/model", task: "rte", seed: 4, maxTrainSamples: null, tokenization: "subword" });
  expect(config.train).toMatchObject({
    epochs: 1.5,
    batchSize: 16,
    lrScheduler: [0.1, 0.55, 1],
    learningRate: 3e-5,
    maxGradNorm: null,
    dropout: false,
  });
});

describe("mistakes are named by their place", () => {
  test.each([
    [
      "model: m\ntrain:\n  learningRat: 1\n",
      /config\.yaml:3:3: unknown key train\.learningRat \(did you mean "learningRate"\?\)/,
    ],
    ["model: m\ntrain:\n  batchSize: big\n", /config\.yaml:3:3: train\.batchSize: expected number, received "big"/],
    ["model: m\nencoding: words\n", /config\.yaml:2:1: encoding: expected one of "subword"\|"word", received "words"/],
    ["task: sst2\n", /config\.yaml:1:1: model: expected a model \(--model\)/],
    [
      "model: m\nmethod:\n  - rdrop\n",
      /config\.yaml:3:5: method\[0\] \(rdrop\): there is no such method \(did you mean "r-drop"\?\)/,
    ],
    ["model: m\nmethod:\n  - r-drop\n  - rose:\n      keep: 60\n", /config\.yaml:5:7: method\[1\] \(rose\): keep: /],
    ["model: m\nmethod: [rose]\nmodel: n\n", /config\.yaml:3:1: Map keys must be unique/],
    ["- model\n", /config\.yaml: expected a config \(keys and values\), received a list/],
    ["", /config\.yaml: expected a config \(keys and values\), received nothing/],
  ])("%j", async (text, expected) => {
    expect(await messageOf(readRunConfig({ file: yaml(text) }))).toMatch(expected);
  });

  test("flags by their own name, even over a file", async () => {
    const file = yaml("model: m\ntrain:\n  epochs: 3\n");
    expect(await messageOf(readRunConfig({ file, flags: { "train.epochs": -1 } }))).toMatch(
      /^--epochs: train\.epochs: expected .*received -1/,
    );
    expect(await messageOf(readRunConfig({ file, set: ["train.epocs=1"] }))).toMatch(
      /^--set: unknown key train\.epocs/,
    );
    expect(await messageOf(readRunConfig({ file, set: ["model.name=1"] }))).toBe(
      "--set model.name: model holds a value, not keys",
    );
    expect(await messageOf(readRunConfig({ file, set: ["epochs"] }))).toContain("--set: expected KEY=VALUE");
    expect(await messageOf(readRunConfig({ file, flags: { methods: ["rose:updateRatio=60"] } }))).toMatch(
      /^--method: method\[0\] \(rose\): keep: /,
    );
  });
});

test("methods on a command line", () => {
  expect(parseSpec("rose", "--method")).toEqual({ name: "rose", options: {} });
  expect(parseSpec("rose:variant=first,updateRatio=0.6,ensemble=true", "--method")).toEqual({
    name: "rose",
    options: { variant: "first", keep: 0.6, ensemble: true },
  });
  expect(() => parseSpec("rose:first", "--method")).toThrow('received "first" without a value');
  expect(toMethodSpecs(["r-drop", { rose: { updateRatio: 0.6 } }, { mixout: null }])).toEqual([
    { name: "r-drop", options: {} },
    { name: "rose", options: { keep: 0.6 } },
    { name: "mixout", options: {} },
  ]);
});

test("names of runs", async () => {
  const config = (flags: Record<string, unknown>) => readRunConfig({ flags: { model: "m", ...flags } });
  expect(getDefaultRunFolder(await config({ task: "sst2" }))).toBe("runs/sst2-standard-seed0");
  expect(getDefaultRunFolder(await config({ task: "rte", seed: 3, methods: ["r-drop", "rose"] }))).toBe(
    "runs/rte-r-drop+rose-seed3",
  );
  expect(getDefaultRunFolder(await config({ data: "some/where/reviews.csv" }))).toBe("runs/reviews-standard-seed0");
  expect(getDefaultRunFolder(await config({ data: "hf:glue/sst2" }))).toBe("runs/glue-sst2-standard-seed0");
  expect(getMethodName({ methods: ["standard"] })).toBe("standard");
});

test("paths stay right when the config is read from elsewhere", async () => {
  const data = join(folder, "data");
  mkdirSync(data);
  const relative = join(folder, "..", folder.split("/").at(-1)!, "data");
  const config = await readRunConfig({ flags: { model: "roberta-base", data: relative, substitutions: "wordnet" } });
  expect(config).toMatchObject({ model: "roberta-base", data: resolve(data), substitutions: "wordnet" });
});

test("a run with an adversary is selected by robust accuracy, unless it names another metric", async () => {
  const flags = { model: "m", task: "sst2", methods: ["ascc"] };
  expect((await readRunConfig({ flags })).train.metricForBestModel).toBe("robust-accuracy");
  expect((await readRunConfig({ flags, set: ["train.metricForBestModel=f1"] })).train.metricForBestModel).toBe("f1");
  expect((await readRunConfig({ flags: { ...flags, methods: ["r-drop"] } })).train.metricForBestModel).toBe("accuracy");
});
