import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Run } from "../../src/actions/run.js";
import { loadModel } from "../../src/models/index.js";
import { evaluationResultSchema } from "../../src/runs/results.js";
import { free, getMemoryStats } from "../../src/tensor/index.js";
import { computeDistance, expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeReviews, writeTinyBert } from "../tiny-run.js";
import { getError, invoke } from "./invoke.js";

const folder = temporaryFolder();
const out = join(folder, "runs", "reviews");
const columns = ["--text-column", "text", "--label-column", "label"];
let flags: string[];

beforeAll(async () => {
  const model = await writeTinyBert(join(folder, "tiny-bert"));
  const data = writeReviews(join(folder, "reviews.tsv"));
  flags = ["--model", model, "--data", data, ...columns, "--device", "cpu", "--threads", "1"];
  flags.push("--batch-size", "8", "--learning-rate", "1e-2", "--set", "train.dropout=false");
  const trained = await invoke(["train", ...flags, "--epochs", "8", "--out", out]);
  expect(trained.code).toBe(0);
  summary = trained;
});

let summary: { stdout: string; stderr: string };

describe("train", () => {
  test("prints a summary, and each evaluation while it runs", () => {
    expect(summary.stdout).toMatch(
      /^run +\S+runs\/reviews\nmethod +standard, seed 0\ntraining +96 steps on 96 examples/,
    );
    expect(summary.stdout).toMatch(/time +0:\d\d, [\d,.]+ examples\/s\n/);
    expect(summary.stdout).toMatch(/reviews test: 12 examples\naccuracy +\d+\.\d% {2}\(95% CI \d+\.\d% to \d+\.\d%\)/);
    expect(summary.stderr.match(/^step \d+: accuracy /gm)).toHaveLength(8);
  });

  test("--resume of a finished run prints its results again", async () => {
    const { code, stdout, stderr } = await invoke(["train", "--resume", "--out", out]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("time        already finished");
    expect(stdout.split("\n\n")[1]).toBe(summary.stdout.split("\n\n")[1]);
    const { stdout: json } = await invoke(["train", "--resume", "--out", out, "--json"]);
    expect(JSON.parse(json)).toEqual(JSON.parse(readFileSync(join(out, "results.json"), "utf8")));
  });

  test("a signal saves the run and prints how to continue; the resumed run is bitwise identical", async () => {
    const stopped = join(folder, "stopped");
    const running = invoke(["train", ...flags, "--epochs", "8", "--out", stopped]);
    while (!(statSync(join(stopped, "events.jsonl"), { throwIfNoEntry: false })?.size ?? 0))
      await new Promise((resolve) => setTimeout(resolve, 1));
    process.emit("SIGINT");
    const { code, stdout, stderr } = await running;
    expect({ code, stdout }).toEqual({ code: 130, stdout: "" });
    expect(stderr).toContain("Stopping after this step. Repeat to stop immediately.\n");
    expect(stderr).toContain(`Continue with: temper train --resume --out ${stopped}\n`);
    expect(process.listenerCount("SIGINT")).toBe(0);
    expect((await invoke(["train", "--resume", "--out", stopped])).stderr).toMatch(/resuming after step \d+ of 96/);
    expect(readFileSync(join(stopped, "events.jsonl"))).toEqual(readFileSync(join(out, "events.jsonl")));
  });

  test("--model of a task with other labels keeps the encoder, and --head-from-model rejects it", async () => {
    const data = join(folder, "mails.tsv");
    writeFileSync(data, readFileSync(flags[3]!, "utf8").replaceAll("negative", "ham").replaceAll("positive", "spam"));
    const mails = ["--model", join(out, "model"), "--data", data, ...columns, "--epochs", "1", "--threads", "1"];
    const other = join(folder, "mails");
    const { code, stderr } = await invoke(["train", ...mails, "--learning-rate", "1e-9", "--out", other]);
    expect(code).toBe(0);
    expect(stderr.match(/The head of \S+ is not used: its labels \[negative, positive\]/g)).toHaveLength(1);
    const [before, after] = [await loadModel(out), await loadModel(other)];
    const read = (name: string): Float32Array[] =>
      [before, after].map(({ weights }) => weights.get(name)!.toFloat32Array());
    const [first, second] = read("bert.embeddings.word_embeddings.weight");
    // With this learning rate, each of the 12 steps moves a weight by less than a rounding of the largest.
    expectClose(second!, first!, { terms: 12 });
    const [firstHead, secondHead] = read("classifier.weight");
    expect(computeDistance(firstHead!, secondHead!)).toBeGreaterThan(1e-3);
    free([before.weights, after.weights]);
    expect(JSON.parse(readFileSync(join(other, "model", "config.json"), "utf8"))).toMatchObject({
      temper: { task: "mails", labels: ["ham", "spam"] },
    });
    const kept = await invoke(["train", ...mails, "--head-from-model", "--out", join(folder, "kept")]);
    expect(kept.code).toBe(2);
    expect(kept.stderr).toMatch(/\[negative, positive\] and the task mails \[ham, spam\] differ/);
    expect(existsSync(join(folder, "kept"))).toBe(false);
  });

  test("--dry-run prints the config and the cost, and writes nothing", async () => {
    const nowhere = join(folder, "nowhere");
    const { code, stdout } = await invoke(["train", ...flags, "--dry-run", "--out", nowhere, "--method", "r-drop"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^model: .*tiny-bert\n/);
    expect(stdout).toContain("methods:\n  - name: r-drop\n");
    expect(stdout).toMatch(/steps +36, [\d.]+ s per step\ntime +about 0:\d\d: /);
    expect(existsSync(nowhere)).toBe(false);
    const { stdout: json } = await invoke(["train", ...flags, "--dry-run", "--json"]);
    expect(JSON.parse(json)).toMatchObject({
      steps: 36,
      parameters: expect.any(Number) as number,
      config: { train: { dropout: false } },
    });
  });

  test.each<[string, string[], RegExp]>([
    ["no model", ["--data", "x.tsv"], /config: model: expected a model \(--model\)/],
    ["an unknown setting", ["--model", "m", "--set", "train.lr=1"], /--set: unknown key train\.lr/],
    ["a value that is not a number", ["--learning-rate", "fast"], /Expected a number\./],
    [
      "an unknown method",
      ["--model", "m", "--task", "sst2", "--method", "roze"],
      /--method: methods\[0\] \(roze\).*did you mean "rose"\?/,
    ],
    ["nothing to resume", ["--resume", "--out", "no-such-run"], /no-such-run is not a run/],
    ["--resume without a folder", ["--resume"], /--resume: which run\? Pass --out FOLDER/],
    ["a config that does not exist", ["--config", "none.yaml"], /none\.yaml: there is no such file/],
  ])("%s", async (_name, args, expected) => {
    const { code, stdout, stderr } = await invoke(["train", ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(expected);
  });
});

describe("evaluate", () => {
  test("evaluates a custom file and prints JSON or a table", async () => {
    const data = writeReviews(join(folder, "more.tsv"), 50, "more");
    const args = ["evaluate", out, "--data", data, ...columns, "--device", "cpu"];
    const { code, stdout } = await invoke([...args, "--json"]);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as {
      accuracy: number;
      interval: { low: number; high: number };
      metrics: Record<string, number>;
    };
    expect(report).toMatchObject({ task: "more", split: "test", examples: 50, labels: ["negative", "positive"] });
    expect(report.interval.low).toBeLessThan(report.accuracy);
    expect(report.interval.high).toBeGreaterThanOrEqual(report.accuracy);
    expect(report.metrics).toMatchObject({ f1: expect.any(Number), "recall:negative": expect.any(Number) });
    const shifted = JSON.parse((await invoke([...args, "--threshold", "0", "--json"])).stdout) as typeof report;
    expect(shifted.metrics).toMatchObject({ "recall:positive": 1, "recall:negative": 0 });
    const outside = await invoke([...args, "--threshold", "1.5"]);
    expect([outside.code, outside.stderr]).toEqual([2, expect.stringContaining("threshold")]);
    const people = await invoke(args);
    expect(people.stdout).toMatch(/^more test: 50 examples\naccuracy +\d+\.\d%/);
    expect(people.stdout).toMatch(/label \\ predicted +negative +positive\nnegative +\d+ +\d+\npositive +\d+ +\d+\n/);
    expect(people.stdout).toMatch(/recall of positive +precision +--threshold\n/);
    expect(people.stdout).toMatch(
      /25 texts of positive, 25 others: AUC [01]\.\d+ \(95% CI .*\), false positives at 95% recall .*% \(95% CI .*\n$/,
    );
    const sample = await invoke([...args, "--max-samples", "10", "--json"]);
    const drawn = JSON.parse(sample.stdout) as { examples: number; confusionMatrix: number[][] };
    expect(drawn.examples).toBe(10);
    // A balanced sample would have five texts of each label, whatever the file has.
    const counts = drawn.confusionMatrix.map((row) => row.reduce((sum, count) => sum + count, 0));
    expect(counts).not.toEqual([5, 5]);
  });

  test("a label is evaluated as what a guard flags, with the benign texts of other files", async () => {
    const data = writeReviews(join(folder, "guarded.tsv"), 50, "guarded");
    const [benign, none] = [join(folder, "benign.txt"), join(folder, "none.txt")];
    writeFileSync(benign, "the film was good\na warm plot\nfine and bright\n");
    writeFileSync(none, "");
    const args = ["evaluate", out, "--data", data, ...columns, "--device", "cpu", "--positive-label", "negative"];
    const flags = ["--benign", `praise=${benign}`, "--json"];
    const { stdout, stderr } = await invoke([...args, ...flags]);
    expect(stderr).not.toContain("temper:");
    const result = evaluationResultSchema.parse(JSON.parse(stdout));
    const other = evaluationResultSchema.parse(
      JSON.parse((await invoke([...args.slice(0, -1), "positive", "--json"])).stdout),
    );
    expect([result.positiveLabel, other.positiveLabel]).toEqual(["negative", "positive"]);
    expect(result.auc).toBeGreaterThan(0.5);
    expect(Object.keys(result.recallAtFpr!)).toEqual(["0.001", "0.01", "0.05"]);
    const { threshold, recall } = result.operatingPoints!.pointAtFpr["0.01"]!;
    expect(result.recallAtFpr!["0.01"]).toBe(recall);
    expect(result.benign).toMatchObject([{ name: "praise", examples: 3 }]);
    const run = await Run.open(out);
    await using model = await run.loadModel({ device: "cpu" });
    const predictions = await model.classify(readFileSync(benign, "utf8").trimEnd().split("\n"));
    const flagged = predictions.filter(({ probabilities }) => probabilities.negative! >= threshold!);
    expect(result.benign[0]!.falsePositiveRates["0.01"]).toBe(flagged.length / 3);
    expect(result.metrics.f1).not.toBe(other.metrics.f1);
    const people = await invoke([...args, ...flags.slice(0, 2)]);
    expect(people.stdout).toMatch(/recall of negative +95% CI +--threshold +flagged of praise \(3\)\n/);
    const wrong: [string[], RegExp][] = [
      [["--benign", "praise"], /--benign: expected NAME=FILE, .*received "praise"/],
      [["--benign", `none=${none}`], /none: expected texts, received none|none\.txt/],
      [["--positive-label", "neutral"], /expected one of negative, positive, received "neutral"/],
    ];
    for (const [more, message] of wrong) expect(await getError([...args, ...more])).toMatch(message);
  });

  test("--slices divides the texts by a column, at the thresholds of all of them", async () => {
    const data = join(folder, "sliced.csv");
    const kinds = ["long", "short"];
    const rows = reviews(40).map(({ text, label }, i) => `${text},${label},${kinds[Number(i % 3 === 0)]}\n`);
    writeFileSync(data, `text,label,kind\n${rows.join("")}`);
    const args = ["evaluate", out, "--data", data, ...columns, "--device", "cpu"];
    const { slices, operatingPoints, accuracy } = evaluationResultSchema.parse(
      JSON.parse((await invoke([...args, "--slices", "kind", "--json"])).stdout),
    );
    expect(slices.map(({ name, examples }) => [name, examples])).toEqual([
      ["long", 26],
      ["short", 14],
    ]);
    const total = slices.reduce((sum, slice) => sum + slice.accuracy * slice.examples, 0);
    expectClose([total / 40], [accuracy], { terms: 3 });
    const found = slices.reduce((sum, slice) => sum + slice.recallAtFpr["0.05"]!.recall * slice.positives, 0);
    const { recall } = operatingPoints!.pointAtFpr["0.05"]!;
    expectClose([found / operatingPoints!.positives], [recall], { terms: 3 });
    expect((await invoke([...args, "--slices", "kind"])).stdout).toMatch(
      /slice +texts +accuracy +recall of positive at/,
    );
    const wrong = await invoke([...args, "--slices", "kinds"]);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/no column "kinds".*kind/) });
  });

  const shared = process.env.TEMPER_DATA ?? "data";

  test.skipIf(!existsSync(join(shared, "advglue")))(
    "prints AdvGLUE next to GLUE, and the drop (needs AdvGLUE in TEMPER_DATA)",
    async () => {
      const sst2 = join(folder, "sst2");
      const settings = "--max-train-samples 32 --epochs 1 --set maxValidationSamples=20 --device cpu --max-length 12";
      const flags = ["--model", join(folder, "tiny-bert"), "--task", "sst2", "--data", shared, "--out", sst2];
      expect(await invoke(["train", ...flags, ...settings.split(" ")])).toMatchObject({ code: 0 });
      const { code, stdout } = await invoke(["evaluate", sst2, "--task", "advglue", "--data", shared]);
      expect(code).toBe(0);
      expect(stdout).toMatch(
        /^dataset +examples +accuracy +95% CI\nGLUE sst2 +872 +\d+\.\d% +.*\nAdvGLUE sst2 +148 +\d+\.\d% /,
      );
      const json = JSON.parse(
        (await invoke(["evaluate", sst2, "--task", "advglue", "--data", shared, "--json"])).stdout,
      ) as {
        drop: number;
        glue: { accuracy: number; task: string };
        advglue: { accuracy: number; task: string };
      };
      expect(json).toMatchObject({ task: "advglue", glue: { task: "sst2" }, advglue: { task: "advglue:sst2" } });
      expect(json.drop).toBe(json.glue.accuracy - json.advglue.accuracy);
      // A part of AdvGLUE can be named like any other task.
      const part = JSON.parse(
        (await invoke(["evaluate", sst2, "--task", "advglue:sst2", "--data", shared, "--json"])).stdout,
      ) as object;
      expect(part).toMatchObject({
        task: "advglue:sst2",
        split: "test",
        examples: 148,
        accuracy: json.advglue.accuracy,
      });
    },
  );

  test("rejects data whose labels differ from the model's, and prints both", async () => {
    const data = join(folder, "stars.tsv");
    writeFileSync(data, "text\tlabel\na film\tone\nthe plot\ttwo\n");
    const { code, stderr } = await invoke(["evaluate", out, "--data", data, ...columns]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/expected the labels negative, positive in "label"; received one, two/);
    const spam = await invoke(["evaluate", out, "--task", "spam"]);
    expect(spam.code).toBe(2);
    expect(spam.stderr).toMatch(/negative, positive.*ham, spam/);
  });

  test("rejects a model without a head, a model of another task and a split that does not exist", async () => {
    const bare = await invoke(["evaluate", join(folder, "tiny-bert"), "--task", "sst2"]);
    expect(bare.code).toBe(2);
    expect(bare.stderr).toContain("has no classification head. Train one first");
    const advglue = await invoke(["evaluate", out, "--task", "advglue"]);
    expect(advglue.stderr).toContain(
      "advglue: expected a model trained on one of sst2, qqp, qnli, rte, mnli, mnli-mm, received one trained on reviews",
    );
    const more = ["--data", join(folder, "more.tsv"), ...columns];
    const split = await invoke(["evaluate", out, ...more, "--split", "validation"]);
    expect(split.stderr).toMatch(/more has no validation split\. It has: test\./);
  });
});

describe("predict", () => {
  test("classifies plain text and JSON lines in order", async () => {
    const texts = reviews(40, "predict").map(({ text }) => text);
    const plain = await invoke(["predict", out], texts.join("\n"));
    expect(plain.code).toBe(0);
    const lines = plain.stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.split("\t")[2])).toEqual(texts);
    for (const line of lines) expect(line).toMatch(/^(negative|positive)\t[01]\.\d{4}\t/);
    const json = await invoke(["predict", out, "--json"], texts.map((text) => JSON.stringify({ text })).join("\n"));
    const parsed = json.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { text: string; label: string; probabilities: Record<string, number> });
    for (const [i, { text, label, probabilities }] of parsed.entries()) {
      expect(text).toBe(texts[i]);
      expect(Object.keys(probabilities)).toEqual(["negative", "positive"]);
      expectClose(probabilities.negative! + probabilities.positive!, 1);
      expect(probabilities[label]).toBe(Math.max(...Object.values(probabilities)));
      expect(lines[i]!.startsWith(label)).toBe(true);
    }
  });

  test("classifies pairs from a file", async () => {
    const file = join(folder, "pairs.jsonl");
    writeFileSync(file, '{"texts": ["a film", "it was good"]}\n{"text": "bad"}\n');
    // The run was trained on single texts. Of a model without a run, this is not known.
    cpSync(join(out, "model"), join(folder, "bare"), { recursive: true });
    const { stdout } = await invoke(["predict", join(folder, "bare"), file, "--json"]);
    const [pair, single] = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(pair).toMatchObject({ texts: ["a film", "it was good"] });
    expect(single).toMatchObject({ text: "bad" });
  });

  test("prints a text with line breaks and tabs as one line of three columns", async () => {
    const { stdout } = await invoke(["predict", out], `${JSON.stringify({ text: "good\npositive\t1.0000\r\nbad" })}\n`);
    expect(stdout).toMatch(/^(negative|positive)\t[01]\.\d{4}\tgood positive 1\.0000 bad\n$/);
  });

  test("classifies what has arrived while more may come", async () => {
    const { run } = await import("../../src/cli/main.js");
    const { memoryStream } = await import("./invoke.js");
    const [stdout, stderr] = [memoryStream(), memoryStream()];
    let release = (): void => undefined;
    const stdin = (async function* () {
      yield Buffer.from("a good film\n");
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      yield Buffer.from("a bad film\n");
    })();
    const done = run(["predict", out, "--quiet"], { stdin, stdout, stderr });
    while (!stdout.text.includes("\n")) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(stdout.text.split("\n")).toHaveLength(2);
    release();
    expect(await done).toBe(0);
    expect(stdout.text.trimEnd().split("\n")).toHaveLength(2);
  });

  test("frees its tensors and warns about truncated texts", async () => {
    const before = getMemoryStats().tensors;
    const { stderr } = await invoke(["predict", out], `${"good ".repeat(30)}\nbad`);
    expect(getMemoryStats().tensors).toBe(before);
    expect(stderr).toBe("warning: 1 text was truncated to 12 tokens.\n");
  });
});
