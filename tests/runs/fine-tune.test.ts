import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { loadModel } from "../../src/models/index.js";
import type { RunConfig } from "../../src/runs/config.js";
import { estimateRun } from "../../src/runs/estimate-run.js";
import { fineTune } from "../../src/runs/fine-tune.js";
import { listRuns } from "../../src/runs/list-runs.js";
import { predictTexts } from "../../src/runs/predict.js";
import { readRunConfig } from "../../src/runs/read-config.js";
import { checkDiskSpace } from "../../src/runs/run-folder.js";
import { free, getMemoryStats } from "../../src/tensor/index.js";
import { Interrupted, onCpu } from "../../src/train/index.js";
import { findPython, runPython } from "../python.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
let config: RunConfig;

beforeAll(async () => {
  config = await tinyRun(folder, { train: { epochs: 8, dropout: false } });
});

const readJson = (...path: string[]): Record<string, unknown> =>
  JSON.parse(readFileSync(join(...path), "utf8")) as Record<string, unknown>;
const messageOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: Error) => error.message,
  );

describe("a run folder", () => {
  const out = join(folder, "run");

  test("holds all that the run was, and frees all that it made", async () => {
    const before = getMemoryStats().tensors;
    const results = await fineTune(config, { out });
    expect(getMemoryStats().tensors).toBe(before);
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
      report: { split: "test", examples: 12 },
    });
    expect(results.test.accuracy).toBeGreaterThan(0.8);
    expect(readJson(out, "results.json")).toEqual(results);
    expect(await readRunConfig({ file: join(out, "config.yaml") })).toEqual(config);
    expect(readJson(out, "environment.json")).toMatchObject({
      device: "cpu",
      threads: 1,
      precision: "fp32",
      node: process.version,
    });
    expect(readJson(out, "model", "config.json").temper).toEqual({
      format: 1,
      tokenization: "subword",
      head: "hf",
      pooling: "cls",
      maxLength: 12,
      task: "reviews",
      labels: ["negative", "positive"],
    });
  });

  test("of a finished run is only read, whatever is gone", async () => {
    const written = readFileSync(join(out, "events.jsonl"));
    const results = await fineTune({ ...config, train: { ...config.train, saveTotalLimit: 9 } }, { out, resume: true });
    expect(results).toEqual(readJson(out, "results.json"));
    expect(readFileSync(join(out, "events.jsonl"))).toEqual(written);
  });

  test("is not begun twice, nor resumed as another run", async () => {
    expect(await messageOf(fineTune(config, { out }))).toBe(
      `${out} holds a run already: give --resume to go on with it, or another --out`,
    );
    const changed = { ...config, seed: 5, train: { ...config.train, learningRate: 1 } };
    expect(await messageOf(fineTune(changed, { out, resume: true }))).toContain(
      "--resume with another config: seed was 0, is 5; train.learningRate was 0.01, is 1. ",
    );
  });

  test("is listed with its score", async () => {
    const [run, ...more] = await listRuns(join(folder, "run"));
    expect(more).toEqual([]);
    const { report } = readJson(out, "results.json") as { report: { accuracy: number } };
    expect(run).toMatchObject({
      method: "standard",
      seed: 0,
      state: "finished",
      step: 96,
      steps: 96,
      score: report.accuracy,
      failure: null,
    });
  });
});

describe("one run a folder", () => {
  test("a living process keeps others out; a dead one's lock is no lock", async () => {
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
    expect(await messageOf(fineTune(config, { out }))).toBe(
      `${out}: process ${other.pid} is writing there; wait for it, or give another --out`,
    );
    expect(existsSync(join(out, "events.jsonl"))).toBe(false);
    lock({ ...living, host: "elsewhere" });
    expect(await messageOf(fineTune(config, { out }))).toContain(`process ${other.pid} on elsewhere is writing there`);
    // The same number, but a process that was started at another time.
    lock({ ...living, started: "1" });
    await fineTune({ ...config, train: { ...config.train, epochs: 0.1 } }, { out });
    other.kill();
    expect(existsSync(join(out, "run.lock"))).toBe(false);
  });

  test("two at once", async () => {
    const out = join(folder, "twice");
    const short = { ...config, train: { ...config.train, epochs: 0.1 } };
    const both = await Promise.allSettled([fineTune(short, { out }), fineTune(short, { out })]);
    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  });
});

describe("what cannot work is said before training", () => {
  test("what lies in the folder already stays there", async () => {
    const out = join(folder, "occupied");
    mkdirSync(out);
    writeFileSync(join(out, "notes.txt"), "mine");
    expect(await messageOf(fineTune({ ...config, methods: ["ascc"] }, { out }))).toContain("expected encoding: word");
    expect(readFileSync(join(out, "notes.txt"), "utf8")).toBe("mine");
  });

  test("a disk that is too small", () => {
    expect(() => checkDiskSpace(folder, 1e18)).toThrow(
      /its disk has [\d.]+ GB free, the run needs about 1000000000\.0 GB; free some/,
    );
    expect(() => checkDiskSpace(folder, 1)).not.toThrow();
  });

  test.skipIf(process.getuid?.() === 0)("a folder that cannot be written (root can write any)", async () => {
    const readOnly = join(folder, "read-only");
    mkdirSync(readOnly);
    chmodSync(readOnly, 0o500);
    expect(await messageOf(fineTune(config, { out: join(readOnly, "run") }))).toContain("permission denied");
  });

  test("a path through a file", async () => {
    const file = join(folder, "reviews.tsv");
    expect(await messageOf(fineTune(config, { out: join(file, "run") }))).toContain(
      `cannot write the run folder ${join(file, "run")}: a part of the path is a file, not a folder`,
    );
  });

  test("data that cannot be read leaves no folder behind", async () => {
    const out = join(folder, "nothing");
    expect(await messageOf(fineTune({ ...config, labelColumn: "stars" }, { out }))).toContain('has no column "stars"');
    expect(existsSync(out)).toBe(false);
  });

  test.each<[string, Partial<RunConfig>, string]>([
    ["a method that the model does not fit", { methods: ["ascc"] }, "expected encoding: word"],
    ["a method without what it needs", { methods: ["ascc"], tokenization: "word" }, "needs a substitution set"],
  ])("%s leaves no folder behind", async (_name, changes, message) => {
    const out = join(folder, "unfit");
    expect(await messageOf(fineTune({ ...config, ...changes }, { out }))).toContain(message);
    expect(existsSync(out)).toBe(false);
  });
});

test("a run that fails says so in the list, and can go on", async () => {
  const out = join(folder, "failing");
  const bad = { ...config, train: { ...config.train, learningRate: 1e38, maxGradNorm: null, epochs: 1 } };
  expect(await messageOf(fineTune(bad, { out }))).toMatch(/training diverged at step \d/);
  const [failed] = await listRuns(out);
  expect(failed).toMatchObject({
    state: "failed",
    steps: 12,
    failure: expect.stringContaining("training diverged") as string,
  });
});

test("a run that was stopped is listed as such, with the best so far", async () => {
  const out = join(folder, "stopped");
  const controller = new AbortController();
  const watch = { onStep: ({ step }: { step: number }) => void (step === 14 && controller.abort()) };
  await expect(fineTune(config, { out, signal: controller.signal, callbacks: watch })).rejects.toBeInstanceOf(
    Interrupted,
  );
  expect(existsSync(join(out, "run.lock"))).toBe(false);
  expect(await listRuns(out)).toMatchObject([
    { state: "stopped", step: 14, steps: 96, score: null, metricForBestModel: "accuracy" },
  ]);
  expect((await listRuns(out))[0]!.selected).toBeGreaterThanOrEqual(0.5);
  const seen: string[] = [];
  await fineTune(config, { out, resume: true, callbacks: { onStart: ({ step }) => void seen.push(`from ${step}`) } });
  expect(seen).toEqual(["from 14"]);
  expect(readFileSync(join(out, "model/model.safetensors"))).toEqual(
    readFileSync(join(folder, "run/model/model.safetensors")),
  );
});

test("data that changed since a run began is another run", async () => {
  const own = await tinyRun(join(folder, "changing"));
  const out = join(folder, "changing", "run");
  const controller = new AbortController();
  const watch = { onStep: () => controller.abort() };
  await fineTune(own, { out, signal: controller.signal, callbacks: watch }).catch(() => undefined);
  const lines = readFileSync(own.data!, "utf8").split("\n");
  writeFileSync(own.data!, [...lines.slice(0, 50), "the very good scene\tpositive", ...lines.slice(51)].join("\n"));
  expect(await messageOf(fineTune(own, { out, resume: true }))).toMatch(
    /since the run began, its training data( and selection data)? changed/,
  );
});

test("substitutions that changed since a run began are another run", async () => {
  const table = join(folder, "substitutions.json");
  writeFileSync(table, JSON.stringify({ good: ["fine", "warm"], bad: ["dull"] }));
  const own = { ...config, tokenization: "word" as const, substitutions: table, methods: ["ascc"] };
  const out = join(folder, "other-words");
  const controller = new AbortController();
  await fineTune(own, { out, signal: controller.signal, callbacks: { onStep: () => controller.abort() } }).catch(
    () => undefined,
  );
  writeFileSync(table, JSON.stringify({ good: ["fine"], bad: ["dull"] }));
  expect(await messageOf(fineTune(own, { out, resume: true }))).toContain(
    "since the run began, its substitutions changed",
  );
});

test("what was read before a broken line is answered, and the line is the error", async () => {
  const model = await loadModel(join(folder, "run", "model"));
  for (const good of [3, 512]) {
    const inputs = (async function* () {
      for (let i = 0; i < good; i++) yield { texts: ["the film was good"] };
      throw new Error("line is broken");
    })();
    let answered = 0;
    const answer = async (): Promise<void> => {
      for await (const _ of predictTexts(model, inputs, onCpu)) answered++;
    };
    expect(await messageOf(answer())).toBe("line is broken");
    expect(answered).toBe(good);
  }
  free(model.weights);
});

test("a table too small to be cut is refused before anything is trained", async () => {
  const data = join(folder, "small.tsv");
  writeFileSync(
    data,
    "text\tlabel\nthe good film\tpositive\nthe bad film\tnegative\na good plot\tpositive\na bad plot\tnegative\n",
  );
  const out = join(folder, "too-small");
  const message = await messageOf(fineTune({ ...config, data }, { out }));
  expect(message).toMatch(/its (select|test) split is empty: expected at least 3 rows of a label/);
  expect(existsSync(out)).toBe(false);
});

test("texts that train and also evaluate are counted", async () => {
  const data = join(folder, "overlapping");
  mkdirSync(data);
  const table = (rows: { text: string; label: string }[]): string =>
    ["text\tlabel", ...rows.map((r) => `${r.text}\t${r.label}`)].join("\n");
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
  const notices: string[] = [];
  await estimateRun({ ...config, data }, (message) => notices.push(message));
  expect(notices).toEqual(["3 of the 20 texts of the dev split also stand in the training data"]);
});

test("a plan knows the run without a trace of it", async () => {
  const before = getMemoryStats().tensors;
  const plan = await estimateRun(config, () => undefined);
  expect(getMemoryStats().tensors).toBe(before);
  expect(plan).toMatchObject({
    steps: 96,
    evaluations: 8,
    device: "cpu",
    examples: { train: 96, selection: 12, report: 12 },
  });
  const weights = readFileSync(join(folder, "run/model/model.safetensors")).length / 4;
  expect(plan.parameters).toBeLessThan(weights);
  expect(plan.parameters).toBeGreaterThan(weights / 2);
  expect(plan.memoryBytes).toBeGreaterThan(1e7);
  expect(plan.secondsPerStep).toBeGreaterThan(0);
  expect(plan.seconds.train).toBeCloseTo(plan.secondsPerStep * 96);
  expect(existsSync("runs/reviews-standard-seed0")).toBe(false);
});

const python = findPython("torch", "transformers");

test.skipIf(python === null)(
  "transformers loads the model and finds the same probabilities (needs a Python with it)",
  async () => {
    const path = join(folder, "run", "model");
    const texts = [["a very good film"], ["the plot was dull and cold"], ["it"], ["the film was", "warm and bright"]];
    const model = await loadModel(path);
    const inputs = (async function* () {
      for (const each of texts) yield { texts: each };
    })();
    const ours: Record<string, number>[] = [];
    for await (const { probabilities } of predictTexts(model, inputs, onCpu)) ours.push(probabilities);
    free(model.weights);
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
    for (const [i, row] of theirs.entries())
      for (const [label, p] of Object.entries(row)) expect(Math.abs(ours[i]![label]! - p)).toBeLessThan(1e-5);
  },
);
