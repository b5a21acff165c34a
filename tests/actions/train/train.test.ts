import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { predict } from "../../../src/actions/predict/predict.js";
import { loadClassifier } from "../../../src/actions/predict/text-classifier.js";
import { estimateRun } from "../../../src/actions/train/estimate-run.js";
import { train } from "../../../src/actions/train/train.js";
import { listen } from "../../../src/base/events.js";
import { listRuns } from "../../../src/runs/list-runs.js";
import { RunWriter } from "../../../src/runs/run-writer.js";
import type { RunConfig, RunConfigInput } from "../../../src/settings/config.js";
import { readRun } from "../../../src/settings/read-config.js";
import { getMemoryStats } from "../../../src/tensor/index.js";
import { Interrupted } from "../../../src/train/index.js";
import { findPython, runPython } from "../../python.js";
import { expectClose, expectComputedAsync, float64 } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { reviews, tinyRun } from "../../tiny-run.js";

const folder = temporaryFolder();
let config: RunConfig;

beforeAll(async () => {
  config = await tinyRun(folder, { train: { epochs: 8, dropout: false } });
});

const readJson = (...path: string[]): Record<string, unknown> =>
  JSON.parse(readFileSync(join(...path), "utf8")) as Record<string, unknown>;
const getMessage = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: Error) => error.message,
  );

describe("a run folder", () => {
  const out = join(folder, "run");

  test("contains everything about the run, and all tensors are freed", async () => {
    const before = getMemoryStats().tensors;
    const run = await train({ ...config, out });
    expect(getMemoryStats().tensors).toBe(before);
    const results = (await run.results())!;
    expect(readdirSync(out).sort()).toEqual(
      [
        "checkpoints",
        "config.yaml",
        "environment.json",
        "events.jsonl",
        "model",
        "results.json",
        "status.json",
        "timings.jsonl",
      ].sort(),
    );
    expect(results).toMatchObject({
      task: "reviews",
      steps: 96,
      trainExamples: 96,
      test: { split: "test", examples: 12 },
    });
    expect(results.test.accuracy).toBeGreaterThan(0.8);
    expect(readJson(out, "results.json")).toEqual(results);
    expect((await readRun({ file: join(out, "config.yaml") })).config).toEqual(config);
    expect(readJson(out, "environment.json")).toMatchObject({
      device: "cpu",
      threads: 1,
      precision: "fp32",
      node: process.version,
    });
    expect(readJson(out, "model", "config.json").temper).toEqual({
      format: 2,
      tokenization: "subword",
      head: "hf",
      pooling: "cls",
      maxLength: 12,
      task: "reviews",
      labels: ["negative", "positive"],
      sha256: { "model.safetensors": expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    });
  });

  test("of a finished run is only read by --resume", async () => {
    const written = readFileSync(join(out, "events.jsonl"));
    const run = await train({ ...config, train: { ...config.train, saveTotalLimit: 9 }, out, resume: true });
    expect(await run.results()).toEqual(readJson(out, "results.json"));
    expect(readFileSync(join(out, "events.jsonl"))).toEqual(written);
  });

  test("is neither overwritten nor resumed with other settings", async () => {
    expect(await getMessage(train({ ...config, out }))).toBe(
      `${out} already contains a run. Pass --resume to continue it, or choose a different --out.`,
    );
    const changed = { ...config, seed: 5, train: { ...config.train, learningRate: 1 } };
    expect(await getMessage(train({ ...changed, out, resume: true }))).toContain(
      "--resume with different settings: seed was 0, is 5; train.learningRate was 0.01, is 1. ",
    );
  });

  test("is listed with its accuracy", async () => {
    const [run, ...more] = await listRuns(join(folder, "run"));
    expect(more).toEqual([]);
    const { test: result } = readJson(out, "results.json") as { test: { accuracy: number } };
    expect(run).toMatchObject({
      method: "standard",
      seed: 0,
      state: "finished",
      step: 96,
      steps: 96,
      accuracy: result.accuracy,
      failure: null,
    });
  });
});

describe("one process per folder", () => {
  test("the lock of a running process is respected, that of a dead one is not", async () => {
    const out = join(folder, "locked");
    mkdirSync(out);
    const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await new Promise((resolve) => other.once("spawn", resolve));
    const stat = readFileSync(`/proc/${other.pid}/stat`, "utf8")
      .replace(/^.*\)\s/s, "")
      .split(" ");
    const lock = (owner: object): void => writeFileSync(join(out, "run.lock"), JSON.stringify(owner));
    const living = { pid: other.pid, host: hostname(), started: stat[19] };
    lock(living);
    expect(await getMessage(train({ ...config, out }))).toBe(
      `${out}: process ${other.pid} is writing there. Wait for it, or choose a different --out.`,
    );
    expect(existsSync(join(out, "events.jsonl"))).toBe(false);
    lock({ ...living, host: "elsewhere" });
    expect(await getMessage(train({ ...config, out }))).toContain(`process ${other.pid} on elsewhere is writing there`);
    // The same process ID, but another start time.
    lock({ ...living, started: "1" });
    await train({ ...config, train: { ...config.train, epochs: 0.1 }, out });
    other.kill();
    expect(existsSync(join(out, "run.lock"))).toBe(false);
  });

  test("of two concurrent runs, one is rejected", async () => {
    const out = join(folder, "twice");
    const short = { ...config, train: { ...config.train, epochs: 0.1 } };
    const both = await Promise.allSettled([train({ ...short, out }), train({ ...short, out })]);
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });
});

describe("before training, it rejects", () => {
  test("an unsuitable method, and keeps other files of the folder", async () => {
    const out = join(folder, "occupied");
    mkdirSync(out);
    writeFileSync(join(out, "notes.txt"), "mine");
    expect(await getMessage(train({ ...config, methods: ["ascc"], out }))).toContain("tokenization: word");
    expect(readFileSync(join(out, "notes.txt"), "utf8")).toBe("mine");
  });

  test("a disk that is too small", () => {
    const writer = new RunWriter(join(folder, "disk"), false);
    expect(() => writer.checkDiskSpace(1e18)).toThrow(
      /the disk has [\d.]+ [kMGT]B free, the run needs about 1000000\.0 TB\. Free some/,
    );
    expect(() => writer.checkDiskSpace(1)).not.toThrow();
    writer.release();
  });

  test.skipIf(process.getuid?.() === 0)("a folder that cannot be written (root can write any)", async () => {
    const readOnly = join(folder, "read-only");
    mkdirSync(readOnly);
    chmodSync(readOnly, 0o500);
    expect(await getMessage(train({ ...config, out: join(readOnly, "run") }))).toContain("permission denied");
  });

  test("a path through a file", async () => {
    const file = join(folder, "reviews.tsv");
    expect(await getMessage(train({ ...config, out: join(file, "run") }))).toContain(
      `cannot write the run folder ${join(file, "run")}: a part of the path is a file, not a folder`,
    );
  });

  test("data that cannot be read leaves no folder behind", async () => {
    const out = join(folder, "nothing");
    expect(await getMessage(train({ ...config, labelColumn: "stars", out }))).toContain('has no column "stars"');
    expect(existsSync(out)).toBe(false);
  });

  test.each<[string, Partial<RunConfigInput>, string]>([
    ["a method that does not fit the model", { methods: ["ascc"] }, "tokenization: word"],
    ["a method without its substitutions", { methods: ["ascc"], tokenization: "word" }, "substitutions"],
  ])("%s leaves no folder behind", async (_name, changes, message) => {
    const out = join(folder, "unfit");
    expect(await getMessage(train({ ...config, ...changes, out }))).toContain(message);
    expect(existsSync(out)).toBe(false);
  });
});

test("a failed run is listed with its error", async () => {
  const out = join(folder, "failing");
  const bad = { ...config, train: { ...config.train, learningRate: 1e30, maxGradNorm: null, epochs: 1 } };
  expect(await getMessage(train({ ...bad, out }))).toMatch(/Training diverged at step \d/);
  const [failed] = await listRuns(out);
  expect(failed).toMatchObject({
    state: "failed",
    steps: 12,
    failure: expect.stringContaining("Training diverged") as string,
  });
});

test("a stopped run is listed with its best validation value, and resumes bitwise identically", async () => {
  const out = join(folder, "stopped");
  const controller = new AbortController();
  const callbacks = listen({ step: ({ step }) => step === 14 && controller.abort() });
  await expect(train({ ...config, out }, { signal: controller.signal, ...callbacks })).rejects.toBeInstanceOf(
    Interrupted,
  );
  expect(existsSync(join(out, "run.lock"))).toBe(false);
  expect(await listRuns(out)).toMatchObject([
    { state: "stopped", step: 14, steps: 96, accuracy: null, metricForBestModel: "accuracy" },
  ]);
  expect((await listRuns(out))[0]!.bestValidation).toBeGreaterThanOrEqual(0.5);
  const seen: string[] = [];
  await train({ ...config, out, resume: true }, listen({ start: ({ step }) => seen.push(`from ${step}`) }));
  expect(seen).toEqual(["from 14"]);
  expect(readFileSync(join(out, "model/model.safetensors"))).toEqual(
    readFileSync(join(folder, "run/model/model.safetensors")),
  );
});

test("--resume rejects changed data", async () => {
  const own = await tinyRun(join(folder, "changing"));
  const out = join(folder, "changing", "run");
  const controller = new AbortController();
  const callbacks = listen({ step: () => controller.abort() });
  await train({ ...own, out }, { signal: controller.signal, ...callbacks }).catch(() => undefined);
  const lines = readFileSync(own.data!, "utf8").split("\n");
  writeFileSync(own.data!, [...lines.slice(0, 50), "the very good scene\tpositive", ...lines.slice(51)].join("\n"));
  expect(await getMessage(train({ ...own, out, resume: true }))).toMatch(
    /training data( and validation data)? changed since the run started/,
  );
});

test("--resume rejects changed substitutions", async () => {
  const table = join(folder, "substitutions.json");
  writeFileSync(table, JSON.stringify({ good: ["fine", "warm"], bad: ["dull"] }));
  const own = { ...config, tokenization: "word" as const, substitutions: table, methods: ["ascc"] as const };
  const out = join(folder, "other-words");
  const controller = new AbortController();
  await train({ ...own, out }, { signal: controller.signal, ...listen({ step: () => controller.abort() }) }).catch(
    () => undefined,
  );
  writeFileSync(table, JSON.stringify({ good: ["fine"], bad: ["dull"] }));
  expect(await getMessage(train({ ...own, out, resume: true }))).toContain(
    "substitutions changed since the run started",
  );
});

test("predict classifies everything before a broken line and then throws", async () => {
  for (const count of [3, 512]) {
    const inputs = (async function* () {
      for (let i = 0; i < count; i++) yield { texts: ["the film was good"] };
      throw new Error("line is broken");
    })();
    let classified = 0;
    const classify = async (): Promise<void> => {
      for await (const _ of predict({ model: join(folder, "run") }, inputs)) classified++;
    };
    expect(await getMessage(classify())).toBe("line is broken");
    expect(classified).toBe(count);
  }
});

test("a file that is too small to hold out a split is rejected before training", async () => {
  const data = join(folder, "small.tsv");
  writeFileSync(
    data,
    "text\tlabel\nthe good film\tpositive\nthe bad film\tnegative\na good plot\tpositive\na bad plot\tnegative\n",
  );
  const out = join(folder, "too-small");
  const message = await getMessage(train({ ...config, data, out }));
  expect(message).toMatch(/(validation|test) is empty\. Provide at least 3 rows per label/);
  expect(existsSync(out)).toBe(false);
});

test("warns about texts that are in the training data and in another split", async () => {
  const data = join(folder, "overlapping");
  mkdirSync(data);
  const table = (rows: { text: string; label: string }[]): string =>
    ["text\tlabel", ...rows.map((row) => `${row.text}\t${row.label}`)].join("\n");
  const all = reviews(60, "overlap");
  writeFileSync(join(data, "train.tsv"), table(all));
  writeFileSync(
    join(data, "dev.tsv"),
    table(
      reviews(20, "dev").map((row, i) =>
        i < 3 ? { ...row, text: `${all[i]!.text} .` } : { ...row, text: `${row.text} of the plot` },
      ),
    ),
  );
  writeFileSync(
    join(data, "test.tsv"),
    table(reviews(20, "test").map((row) => ({ ...row, text: `${row.text} of the film` }))),
  );
  const warnings: string[] = [];
  await estimateRun({ ...config, data }, listen({ warning: ({ message }) => warnings.push(message) }));
  expect(warnings).toEqual([
    expect.stringMatching(/^3 of the 20 texts of .*validation.* are in the training data, too\.$/),
  ]);
});

test("estimateRun measures a run and writes nothing", async () => {
  const before = getMemoryStats().tensors;
  const estimate = await estimateRun(config);
  expect(getMemoryStats().tensors).toBe(before);
  expect(estimate).toMatchObject({
    steps: 96,
    evaluations: 8,
    device: "cpu",
    examples: { train: 96, validation: 12, test: 12 },
  });
  const weights = readFileSync(join(folder, "run/model/model.safetensors")).length / 4;
  expect(estimate.parameters).toBeLessThan(weights);
  expect(estimate.parameters).toBeGreaterThan(weights / 2);
  expect(estimate.memoryBytes).toBeGreaterThan(1e7);
  expect(estimate.secondsPerStep).toBeGreaterThan(0);
  expectClose(estimate.seconds.train, estimate.secondsPerStep * 96, float64);
  expect(existsSync("runs/reviews-standard-seed0")).toBe(false);
});

const python = findPython("torch", "transformers");

test.skipIf(python === null)(
  "transformers loads the model and computes the same probabilities (needs Python with transformers)",
  async () => {
    const path = join(folder, "run", "model");
    const texts = [["a very good film"], ["the plot was dull and cold"], ["it"], ["the film was", "warm and bright"]];
    await using model = await loadClassifier(path, { device: "cpu" });
    const inputs = texts.map((each) => (each.length === 1 ? each[0]! : (each as [string, string])));
    const compute = async () => (await model.classify(inputs)).map(({ probabilities }) => probabilities);
    const ours = await compute();
    const program = `
import json, sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model, info = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
rows = []
with torch.no_grad():
    for texts in json.loads(sys.argv[2]):
        probabilities = model.eval()(**tokenizer(*texts, return_tensors="pt")).logits.softmax(-1)[0].tolist()
        rows.append({model.config.id2label[i]: p for i, p in enumerate(probabilities)})
print(json.dumps(rows))
`;
    const theirs = runPython(python!, program, path, JSON.stringify(texts)) as Record<string, number>[];
    expect(theirs.map((row) => Object.keys(row))).toEqual(ours.map((row) => Object.keys(row)));
    await expectComputedAsync(async () => (await compute()).map(Object.values), theirs.map(Object.values));
  },
);
