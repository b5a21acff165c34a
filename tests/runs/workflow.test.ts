import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { createFolder } from "../../src/files.js";
import type { RunConfig } from "../../src/runs/config.js";
import { evaluate } from "../../src/runs/evaluate.js";
import { fineTune } from "../../src/runs/fine-tune.js";
import { resolveRunConfig } from "../../src/runs/read-config.js";
import { Run } from "../../src/runs/run.js";
import { listTrainingDataWarnings } from "../../src/runs/training-data-warnings.js";
import { sweepSettingsSchema } from "../../src/sweeps/schema.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const out = join(folder, "run");
const warnings: string[] = [];
let config: RunConfig;

function writeTable(name: string, rows: readonly { text: string; label: string }[]): string {
  writeFileSync(join(folder, name), ["stars,review", ...rows.map((row) => `${row.label},${row.text}`)].join("\n"));
  return join(folder, name);
}

beforeAll(async () => {
  const tiny = await tinyRun(folder, { maxLength: 4000, train: { epochs: 1 } });
  config = { ...tiny, data: writeTable("own.csv", reviews(60)), textColumn: ["review"], labelColumn: "stars" };
  await fineTune(config, { out, onWarning: (message) => warnings.push(message) });
}, 120_000);

const listCheckpointFiles = (path: string): string[] =>
  readdirSync(path, { recursive: true, encoding: "utf8" }).map((name) => name.replace(/.*\//, ""));

test("a length above the model's gives a warning, and the config records the length in use", async () => {
  expect(warnings.join("\n")).toMatch(/reads at most \d+ tokens. maxLength 4000 is reduced/);
  const { maxLength } = (await Run.open(out)).config;
  expect(maxLength).toBeLessThan(4000);
  // The same command continues the run.
  await fineTune(config, { out, resume: true });
  await expect(fineTune({ ...config, maxLength: 8 }, { out, resume: true })).rejects.toThrow("maxLength was");
});

test("evaluate uses the columns of the run for another file", async () => {
  const { examples } = await evaluate({ model: out, data: writeTable("more.csv", reviews(12, "more")), device: "cpu" });
  expect(examples).toBe(12);
});

test("a finished run keeps weights, but no optimizer state unless asked", async () => {
  const found = listCheckpointFiles(join(out, "checkpoints"));
  expect(found).toContain("weights.safetensors");
  expect(found).not.toContain("moments.safetensors");
  const [kept, none] = [join(folder, "kept"), join(folder, "none")];
  await fineTune({ ...config, train: { ...config.train, keepOptimizerState: true } }, { out: kept });
  expect(listCheckpointFiles(join(kept, "checkpoints"))).toContain("moments.safetensors");
  await fineTune({ ...config, train: { ...config.train, saveTotalLimit: 0 } }, { out: none });
  expect(existsSync(join(none, "checkpoints"))).toBe(false);
});

test("training data with rare labels, contradictions or few examples gives warnings", () => {
  const make = (text: string, label: number) => ({ id: text, texts: [text], label });
  const task = { name: "own", labels: ["bad", "good", "odd"] };
  const train = [make("a film", 0), make("A film!", 1), make("one", 0), make("two", 1), make("three", 2)];
  expect(listTrainingDataWarnings(task, train)).toEqual([
    expect.stringContaining("only one training example has the label odd"),
    expect.stringContaining("1 text occurs more than once in the training data with different labels"),
    expect.stringContaining("5 training examples are few for 3 labels"),
  ]);
  const enough = Array.from({ length: 80 }, (_, i) => make(`text ${i}`, i % 2));
  expect(listTrainingDataWarnings({ name: "own", labels: ["bad", "good"] }, enough)).toEqual([]);
});

test("a string is accepted where a list is expected", async () => {
  const tree = { model: "m", data: "d.csv", textColumn: "review", methods: "rose:variant=first" };
  const parsed = await resolveRunConfig(tree, () => "config");
  expect(parsed).toMatchObject({ textColumn: ["review"], methods: [{ name: "rose" }] });
  const evaluation = { attacks: ["pwws", "genetic:population=8"] };
  const sweep = sweepSettingsSchema.parse({ seeds: 3, metrics: "accuracy", evaluation });
  expect(sweep).toMatchObject({ seeds: [3], metrics: ["accuracy"] });
  expect(sweep.evaluation.attacks).toEqual({ pwws: {}, genetic: { population: 8 } });
  expect(sweepSettingsSchema.parse({ evaluation: { attacks: "pwws" } }).evaluation.attacks).toEqual({ pwws: {} });
});

test("a folder that cannot be created is an error at once", () => {
  if (process.platform === "linux") expect(() => createFolder("/proc/nope/run")).toThrow("cannot create the folder");
  writeFileSync(join(folder, "file"), "");
  expect(() => createFolder(join(folder, "file"))).toThrow("there is a file of this name");
  expect(() => createFolder(join(folder, "file/inner"))).toThrow(/a part of the path is a file|there is a file/);
  mkdirSync(join(folder, "there"));
  createFolder(join(folder, "there/a/b"));
  expect(existsSync(join(folder, "there/a/b"))).toBe(true);
});

test("evaluate says that it does not query endpoints", async () => {
  await expect(evaluate({ model: "http://127.0.0.1:9/predict" })).rejects.toThrow("Only attack and verify query");
});
