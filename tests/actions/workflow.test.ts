import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { beforeAll, expect, test } from "vitest";
import { evaluate } from "../../src/actions/evaluate.js";
import { listTrainingDataWarnings } from "../../src/actions/train/prepare-run.js";
import { train } from "../../src/actions/train/train.js";
import { listen } from "../../src/base/events.js";
import { createFolder } from "../../src/base/files.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import type { RunConfig } from "../../src/settings/config.js";
import { resolveRun, userModules } from "../../src/settings/read-config.js";
import { sweepSettingsSchema } from "../../src/sweeps/schema.js";
import { invoke } from "../cli/invoke.js";
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
  await train({ ...config, out }, listen({ warning: ({ message }) => warnings.push(message) }));
});

const listCheckpointFiles = (path: string): string[] =>
  readdirSync(path, { recursive: true, encoding: "utf8" }).map((name) => name.replace(/.*\//, ""));

test("a length above the model's gives a warning, and the config records the length in use", async () => {
  expect(warnings.join("\n")).toMatch(/reads at most \d+ tokens. maxLength 4000 is reduced/);
  const { maxLength } = (await RunFolder.open(out)).config;
  expect(maxLength).toBeLessThan(4000);
  // The same command continues the run.
  await train({ ...config, out, resume: true });
  await expect(train({ ...config, maxLength: 8, out, resume: true })).rejects.toThrow("maxLength was");
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
  await train({ ...config, train: { ...config.train, keepOptimizerState: true }, out: kept });
  expect(listCheckpointFiles(join(kept, "checkpoints"))).toContain("moments.safetensors");
  await train({ ...config, train: { ...config.train, saveTotalLimit: 0 }, out: none });
  expect(existsSync(join(none, "checkpoints"))).toBe(false);
});

test("training data with rare labels, contradictions or few examples gives warnings", () => {
  const make = (text: string, label: number) => ({ id: text, texts: [text], label });
  const task = { name: "own", labels: ["bad", "good", "odd"] };
  const train = [make("a film", 0), make("A film!", 1), make("one", 0), make("two", 1), make("three", 2)];
  const settings = { classWeights: null, batchSampler: "shuffled" } as const;
  expect(listTrainingDataWarnings(task, train, settings)).toEqual([
    expect.stringContaining("only one training example has the label odd"),
    expect.stringContaining("1 text occurs more than once in the training data with different labels"),
    expect.stringContaining("5 training examples are few for 3 labels"),
  ]);
  const enough = Array.from({ length: 80 }, (_, i) => make(`text ${i}`, i % 2));
  const two = { name: "own", labels: ["bad", "good"] };
  expect(listTrainingDataWarnings(two, enough, settings)).toEqual([]);
  const imbalanced = enough.map((each, i) => ({ ...each, label: Number(i < 4) }));
  expect(listTrainingDataWarnings(two, imbalanced, settings)).toEqual([
    expect.stringContaining("imbalanced (76 of bad, 4 of good)"),
  ]);
  expect(listTrainingDataWarnings(two, imbalanced, { ...settings, classWeights: "balanced" })).toEqual([]);
});

test("a string is accepted where a list is expected", async () => {
  const tree = { model: "m", data: "d.csv", textColumn: "review", methods: "rose:variant=first" };
  const { config: parsed } = await resolveRun(tree, userModules);
  expect(parsed).toMatchObject({ textColumn: ["review"], methods: [{ name: "rose" }] });
  const evaluation = { attacks: ["pwws", "genetic:population=8"] };
  const sweep = sweepSettingsSchema.parse({ seeds: 3, metrics: "accuracy", evaluation });
  expect(sweep).toMatchObject({ seeds: [3], metrics: ["accuracy"] });
  expect(sweep.evaluation.attacks).toEqual({ pwws: {}, genetic: { population: 8 } });
  const lists = { averages: { mean: "films" }, slurm: { options: "--account=nlp" } };
  const analysis = { kind: "tradeoff", rows: "rose", columns: "films" };
  expect(sweepSettingsSchema.parse({ ...lists, evaluation: { analyses: [analysis] } })).toMatchObject({
    averages: { mean: ["films"] },
    slurm: { options: ["--account=nlp"] },
    evaluation: { analyses: [{ rows: ["rose"], columns: ["films"] }] },
  });
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

async function predictFile(name: string, content: string, ...more: string[]) {
  writeFileSync(join(folder, name), content);
  return invoke(["predict", out, join(folder, name), "--device", "cpu", "--quiet", ...more]);
}

test("predict reads a table with the columns of the run, and passes other columns through", async () => {
  const target = join(folder, "predicted.csv");
  const content = 'id,review,stars\n7,"the good, warm film",positive\n8,a dull plot,negative\n';
  expect(await predictFile("new.csv", content, "--out", target)).toMatchObject({ code: 0 });
  const [head, first, second, ...rest] = readFileSync(target, "utf8").trimEnd().split("\n");
  expect(head).toBe("id,review,stars,predicted,probability,probability_negative,probability_positive");
  expect(first).toMatch(/^7,"the good, warm film",positive,(negative|positive),0\.\d+,/);
  expect(second).toMatch(/^8,a dull plot,negative,/);
  expect(rest).toEqual([]);
  const other = await predictFile("other.tsv", "id\tbody\n1\ta film\n", "--text-column", "body", "--json");
  expect(JSON.parse(other.stdout)).toMatchObject({ text: "a film" });
  const unknown = await predictFile("columns.csv", "id,body\n1,a film\n");
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("review") });
  const lines = await predictFile("ids.jsonl", '{"id": 3, "text": "a film"}\n', "--out", join(folder, "ids-out.jsonl"));
  expect(lines.code).toBe(0);
  expect(JSON.parse(readFileSync(join(folder, "ids-out.jsonl"), "utf8"))).toMatchObject({ id: 3, text: "a film" });
  expect(await predictFile("x.csv", content, "--out", join(folder, "x.xlsx"))).toMatchObject({ code: 2 });
});

test("predict prints one line per line, and rejects a pair for a model of single texts", async () => {
  const { stdout } = await predictFile("lines.txt", "a film\n\nthe plot\n");
  expect(
    stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t")[2]),
  ).toEqual(["a film", "", "the plot"]);
  const pair = await predictFile("pair.jsonl", '{"text": "a film"}\n{"texts": ["a", "b"]}\n');
  expect(pair).toMatchObject({ code: 2, stderr: expect.stringContaining("line 2 has a pair") });
  const blank = await predictFile("blank.jsonl", '{"text": "a film"}\n\n{"text": "a"}\n');
  expect(blank).toMatchObject({ code: 2, stderr: expect.stringContaining("blank.jsonl:2: the line is blank") });
});

test("evaluate says that it does not query endpoints", async () => {
  await expect(evaluate({ model: "http://127.0.0.1:9/predict" })).rejects.toThrow("Only attack and verify query");
});

test("predict reads Parquet tables", async () => {
  const rows = [
    { id: 2n ** 40n, review: "a good film", seen: true, when: new Date(0), note: null, score: 1.5 },
    { id: 9n, review: "a dull plot", seen: false, when: new Date(1000), note: "x", score: 2 },
  ];
  const types = { id: "INT64", review: "STRING", seen: "BOOLEAN", when: "TIMESTAMP", note: "STRING", score: "DOUBLE" };
  const columnData = Object.entries(types).map(([name, type]) => ({
    ...{ name, type: type as "STRING", nullable: true },
    data: rows.map((row) => row[name as keyof (typeof rows)[0]]),
  }));
  writeFileSync(join(folder, "in.parquet"), new Uint8Array(parquetWriteBuffer({ columnData })));
  const predictTo = async (name: string) => {
    const target = join(folder, name);
    const argv = ["predict", out, join(folder, "in.parquet"), "--device", "cpu", "--quiet", "--out", target];
    expect(await invoke(argv)).toMatchObject({ code: 0 });
    return target;
  };
  expect(readFileSync(await predictTo("out.jsonl"), "utf8")).toContain(
    '{"id":1099511627776,"review":"a good film","seen":true,"when":"1970-01-01T00:00:00.000Z","note":null,"score":1.5,' +
      '"predicted":',
  );
  expect(readFileSync(await predictTo("from-parquet.csv"), "utf8")).toContain("1970-01-01T00:00:01.000Z");
});

test("train reads the files of the splits and maps labels, and evaluate does so, too", async () => {
  const toStars = (rows: { text: string; label: string }[]) =>
    rows.map(({ text, label }) => ({ text, label: label === "positive" ? "5" : "1" }));
  const path = (name: string) => join(folder, "mapped", name);
  mkdirSync(path(""));
  writeTable("mapped/train.csv", toStars(reviews(60)));
  writeTable("mapped/final.csv", toStars(reviews(14, "final")));
  const train = ["train", "--model", config.model, "--data", path("train.csv"), "--test-data", path("final.csv")];
  const columns = ["--label-column", "stars", "--label-map", "1=negative,5=positive", "--max-length", "12"];
  const settings = ["--epochs", "1", "--device", "cpu", "--quiet", "--json", "--out", path("run")];
  const trained = await invoke([...train, ...columns, ...settings]);
  expect(trained).toMatchObject({ code: 0 });
  expect(JSON.parse(trained.stdout)).toMatchObject({ task: "mapped", test: { examples: 14 } });
  const run = await RunFolder.open(path("run"));
  // The inferred column is recorded, so predict knows that the model reads single texts.
  expect(run.config).toMatchObject({ textColumn: ["review"], labelMap: { 1: "negative", 5: "positive" } });
  expect(await run.labels()).toEqual(["negative", "positive"]);
  expect(await invoke([...train, ...columns, ...settings, "--resume"])).toMatchObject({ code: 0 });
  const again = await evaluate({ model: path("run"), data: path("final.csv"), device: "cpu" });
  expect(again).toMatchObject({ examples: 14, labels: ["negative", "positive"] });
  expect((await evaluate({ model: path("run"), device: "cpu" })).accuracy).toBe(again.accuracy);
});
