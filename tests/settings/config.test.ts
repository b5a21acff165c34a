import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { getDefaultRunFolder } from "../../src/runs/run-files.js";
import { formatMethodNames, runConfigSchema } from "../../src/settings/config.js";
import { readConfigFile, readRun, resolveRun, userModules } from "../../src/settings/read-config.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

function yaml(text: string): string {
  const path = join(folder, "config.yaml");
  writeFileSync(path, text);
  return path;
}

const getMessage = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: Error) => error.message,
  );

test("settings that a method requires are filled in and said, unless others are named", async () => {
  const base = { model: "some/model", task: "sst2", methods: ["ascc"] };
  const { config, notes } = await resolveRun(base, userModules);
  expect(config).toMatchObject({ tokenization: "word", substitutions: "wordnet" });
  expect(notes).toEqual([
    "ascc needs tokenization: word and substitutions: wordnet. Nothing else was set, so this is used " +
      "(--tokenization word --substitutions wordnet).",
  ]);
  const named = await resolveRun({ ...base, tokenization: "subword", substitutions: "own.json" }, userModules);
  expect(named).toMatchObject({ config: { tokenization: "subword", substitutions: "own.json" }, notes: [] });
  expect(await resolveRun({ ...base, methods: ["r-drop"] }, userModules)).toMatchObject({
    config: { tokenization: "subword", substitutions: null },
    notes: [],
  });
});

test("flags override the file, --set overrides flags, and the rest has defaults", async () => {
  const file = yaml("model: some/model\ntask: sst2\nseed: 4\ntrain:\n  epochs: 5\n  batchSize: 16\n");
  const { config } = await readRun({
    file,
    flags: { "train.epochs": 2, task: "rte", maxTrainSamples: undefined },
    set: [
      "train.epochs=1.5",
      "train.lrScheduler=[0.1, 0.55, 1]",
      "train.learningRate=3e-5",
      "train.maxGradNorm=null",
      "train.dropout=false",
    ],
  });
  expect(config).toMatchObject({
    model: "some/model",
    task: "rte",
    seed: 4,
    maxTrainSamples: null,
    tokenization: "subword",
  });
  expect(config.train).toMatchObject({
    epochs: 1.5,
    batchSize: 16,
    lrScheduler: [0.1, 0.55, 1],
    learningRate: 3e-5,
    maxGradNorm: null,
    dropout: false,
  });
});

describe("errors name the location", () => {
  test.each([
    [
      "model: m\ntrain:\n  learningRat: 1\n",
      /config\.yaml:3:3: unknown key train\.learningRat \(did you mean "learningRate"\?\)/,
    ],
    ["model: m\ntrain:\n  batchSize: big\n", /config\.yaml:3:3: train\.batchSize: expected number, received "big"/],
    [
      "model: m\ntokenization: words\n",
      /config\.yaml:2:1: tokenization: expected one of "subword"\|"word"\|"released-word", received "words"/,
    ],
    ["model: m\nlimit: 5\n", /config\.yaml:2:1: unknown key limit; expected one of model, .*maxTrainSamples/],
    ["task: sst2\n", /config\.yaml:1:1: model: expected a model \(--model\)/],
    [
      "model: m\nmethods:\n  - rdrop\n",
      /config\.yaml:3:5: methods\[0\] \(rdrop\): unknown method \(did you mean "r-drop"\?\)/,
    ],
    [
      "model: m\nmethods:\n  - r-drop\n  - rose:\n      updateRatio: 60\n",
      /config\.yaml:5:7: methods\[1\] \(rose\): updateRatio: /,
    ],
    ["model: m\nmethods: [rose]\nmodel: n\n", /config\.yaml:3:1: the key model is repeated/],
    ["- model\n", /config\.yaml: expected a config \(keys and values\), received a list/],
    ["", /config\.yaml: expected a config \(keys and values\), received nothing/],
  ])("%j", async (text, expected) => {
    expect(await getMessage(readRun({ file: yaml(text) }))).toMatch(expected);
  });

  test("30,000 unknown keys of a file are reported, and 20 of them are shown", async () => {
    const file = yaml(`model: m\n${Array.from({ length: 30_000 }, (_, i) => `k${i}: 1`).join("\n")}\n`);
    expect(await getMessage(readRun({ file }))).toMatch(/config\.yaml:2:1: unknown key k0[\s\S]*and 29980 more$/);
  });

  test("flags are named, even if a file is given", async () => {
    const file = yaml("model: m\ntrain:\n  epochs: 3\n");
    expect(await getMessage(readRun({ file, flags: { "train.epochs": -1 } }))).toMatch(
      /^--epochs: train\.epochs: expected .*received -1/,
    );
    expect(await getMessage(readRun({ file, set: ["train.epocs=1"] }))).toMatch(/^--set: unknown key train\.epocs/);
    expect(await getMessage(readRun({ file, set: ["model.name=1"] }))).toBe(
      "--set model.name: model is a value, not a group of keys.",
    );
    expect(await getMessage(readRun({ file, set: ["epochs"] }))).toContain("--set: expected KEY=VALUE");
    expect(await getMessage(readRun({ file, flags: { methods: ["rose:updateRatio=60"] } }))).toMatch(
      /^--method: methods\[0\] \(rose\): updateRatio: /,
    );
  });
});

test("methods can be given as strings, as { name: options } and as { name, options }", () => {
  const methods = [
    "r-drop",
    "child-tuning:variant=first,updateRatio=0.6",
    { rose: { updateRatio: 0.6 } },
    { mixout: null },
    { name: "ptwd", options: { weight: 1 } },
  ];
  expect(runConfigSchema.parse({ model: "m", methods }).methods).toEqual([
    { name: "r-drop", options: {} },
    { name: "child-tuning", options: { variant: "first", updateRatio: 0.6 } },
    { name: "rose", options: { updateRatio: 0.6 } },
    { name: "mixout", options: {} },
    { name: "ptwd", options: { weight: 1 } },
  ]);
  expect(() => runConfigSchema.parse({ model: "m", methods: ["rose:first"] })).toThrow("without a value");
});

test("the default run folder is named after task, methods and seed", async () => {
  const config = async (flags: Record<string, unknown>) => (await readRun({ flags: { model: "m", ...flags } })).config;
  expect(getDefaultRunFolder(await config({ task: "sst2" }))).toBe("runs/sst2-standard-seed0");
  expect(getDefaultRunFolder(await config({ task: "rte", seed: 3, methods: ["r-drop", "rose"] }))).toBe(
    "runs/rte-r-drop+rose-seed3",
  );
  expect(getDefaultRunFolder(await config({ data: "some/where/reviews.csv" }))).toBe("runs/reviews-standard-seed0");
  expect(getDefaultRunFolder(await config({ data: "hf:glue/sst2" }))).toBe("runs/glue-sst2-standard-seed0");
  expect(formatMethodNames({ methods: [{ name: "standard", options: {} }] })).toBe("standard");
  expect(formatMethodNames({ methods: [{ name: "/some/where/penalty.js", options: {} }] })).toBe("penalty");
});

test("paths become absolute, so that the config can be read from another folder", async () => {
  const data = join(folder, "data");
  mkdirSync(data);
  const relative = join(folder, "..", folder.split("/").at(-1)!, "data");
  const { config } = await readRun({ flags: { model: "roberta-base", data: relative, substitutions: "wordnet" } });
  expect(config).toMatchObject({ model: "roberta-base", data: resolve(data), substitutions: "wordnet" });
});

test("robust accuracy selects the checkpoint of an adversarial run, unless another metric is set", async () => {
  const flags = { model: "m", task: "sst2", methods: ["ascc"] };
  expect((await readRun({ flags })).config.train.metricForBestModel).toBe("robust-accuracy");
  expect((await readRun({ flags, set: ["train.metricForBestModel=f1"] })).config.train.metricForBestModel).toBe("f1");
  expect((await readRun({ flags: { ...flags, methods: ["r-drop"] } })).config.train.metricForBestModel).toBe(
    "accuracy",
  );
});

test("a label map is a map, or text as on the command line", async () => {
  const tree = { model: "m", data: "d.csv" };
  const read = async (labelMap: unknown) => (await resolveRun({ ...tree, labelMap }, userModules)).config.labelMap;
  expect(await read("1=negative, 5=positive")).toEqual({ 1: "negative", 5: "positive" });
  expect(await read({ 1: "negative", 5: 2 })).toEqual({ 1: "negative", 5: "2" });
  await expect(read("1:negative")).rejects.toThrow("expected VALUE=LABEL pairs, such as 1=negative,5=positive");
  await expect(read(3)).rejects.toThrow("expected VALUE=LABEL pairs");
});

test("runs of earlier versions are read without the settings that are gone", async () => {
  const path = join(folder, "earlier.yaml");
  writeFileSync(path, "{ model: m, data: d.csv, train: { headFirst: 0, focalGamma: 2, epochs: 4 } }\n");
  const { train } = await readConfigFile(path);
  expect(train).toEqual(runConfigSchema.parse({ model: "m", data: "d.csv", train: { epochs: 4 } }).train);
});
