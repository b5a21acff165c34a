import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  attack,
  certify,
  compare,
  evaluate,
  exact,
  gate,
  Interrupted,
  listen,
  Run,
  type RunConfigInput,
  train,
  verify,
  report as writeReport,
} from "temper-nlp";
import { defineMethod } from "temper-nlp/methods";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { getMemoryStats } from "../../src/tensor/index.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const examples = reviews(120);
const [reviewsRun, standardRun] = [join(folder, "runs/reviews"), join(folder, "runs/standard")];
let config: RunConfigInput;

/** A custom method that scales the loss, so that its effect can be seen. */
const scaledLoss = defineMethod({
  name: "scaled-loss",
  summary: "multiplies the loss by a factor",
  paper: "none",
  options: z.strictObject({ factor: z.number().positive().default(2) }),
  create: ({ factor }) => ({
    name: "scaled-loss",
    losses: (_context, next) => new Map([...next()].map(([name, loss]) => [name, loss.mul(factor)])),
  }),
});

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const substitutions = join(folder, "substitutions.json");
  const swaps = { good: ["dull"], fine: ["cold"], bright: ["grey"], warm: ["cold"], bad: ["warm"], dull: ["good"] };
  writeFileSync(substitutions, JSON.stringify({ ...swaps, grey: ["fine"], film: ["plot"], was: ["it"], the: ["a"] }));
  config = {
    model: await writeTinyBert(join(folder, "tiny-bert")),
    data: examples,
    substitutions,
    device: "cpu",
    threads: 1,
    train: { epochs: 8, batchSize: 8, learningRate: 1e-2, dropout: false },
  };
});
afterAll(() => void vi.unstubAllEnvs());

describe("a program without the CLI", () => {
  test("fine-tunes on an array, and stores the examples with their hash", async () => {
    const stages = new Set<string>();
    const run = await train(
      { ...config, out: reviewsRun },
      { onEvent: (event) => stages.add(event.type === "progress" ? event.stage : event.type) },
    );
    expect([...stages]).toEqual(expect.arrayContaining(["start", "step", "validation", "evaluation", "test"]));
    const { test: result, task } = (await run.results())!;
    expect(task).toBe("data");
    expect(result.accuracy).toBeGreaterThan(0.7);
    const stored = readFileSync(run.path("data"), "utf8");
    expect(
      stored
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(examples);
    expect((await run.environment())!.data.file).toBe(createHash("sha256").update(stored).digest("hex"));
    expect(await run.configText()).toMatch(/^data: data\.jsonl$/m);
    expect(await run.evaluate()).toEqual(result);
    expect(await evaluate({ model: reviewsRun })).toEqual(result);
  });

  test("reads a file, a file with its columns and an array as the same data in every request", async () => {
    const path = join(folder, "data.jsonl");
    const some = examples.slice(0, 12);
    writeFileSync(path, some.map(({ text, label }) => `${JSON.stringify({ review: text, stars: label })}\n`).join(""));
    const named = { path, textColumn: "review", labelColumn: "stars" };
    const sources = [{ data: path, textColumn: ["review"], labelColumn: "stars" }, { data: named }, { data: some }];
    const results: unknown[] = [];
    for (const [i, source] of sources.entries()) {
      const request = { ...source, model: reviewsRun, device: "cpu", threads: 1 };
      const out = join(folder, `sources-${i}`);
      const { accuracy, outcomes } = await evaluate(request);
      await attack({ ...request, out: join(out, "attacks") });
      const journal = readFileSync(join(out, "attacks/pwws.jsonl"), "utf8");
      const { texts } = await exact({ ...request, maxChanges: 1, out: join(out, "exact") });
      const { clean } = await certify({ ...request, kind: "windows", out: join(out, "certificates") });
      const { checks } = await gate({ ...request, baseline: reviewsRun, out: join(out, "gate") });
      results.push({ accuracy, outcomes, journal, texts, clean, checks });
    }
    for (const each of results) expect(each).toEqual(results[0]);
    await expect(evaluate({ model: reviewsRun, data: [{ text: "x", lable: "y" }] as never })).rejects.toThrow(
      "data: [0].label: expected a string or a number",
    );
    await expect(evaluate({ model: reviewsRun, data: { path, columns: [] } as never })).rejects.toThrow(
      /evaluate: .*columns/,
    );
  });

  test("classifies, attacks, verifies, compares and writes a report", async () => {
    const before = getMemoryStats().tensors;
    const run = await Run.open(reviewsRun);
    {
      await using model = await run.loadModel({ device: "cpu" });
      const [first, second] = await model.classify(["the film was good", ["a bad plot", "and dull"]]);
      expect(first).toEqual({
        label: "positive",
        probabilities: { negative: expect.any(Number) as number, positive: expect.any(Number) as number },
        truncated: false,
      });
      expect(second!.label).toBe("negative");
    }
    const report = await run.attack(["pwws", "greedy"], { numExamples: 12, device: "cpu" });
    expect(report).toMatchObject({ task: "data", split: "test", examples: 12, request: { model: reviewsRun } });
    expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThan(report.clean);
    expect((await run.attacks()).report).toEqual(report);
    const journals = ["pwws", "greedy"].map((name) => join(run.path("attacks"), `${name}.jsonl`));
    expect(await verify({ journals, model: reviewsRun, device: "cpu" })).toMatchObject([{ lines: 12 }, { lines: 12 }]);

    await train({ ...config, seed: 1, train: { ...config.train, epochs: 0.1 }, out: standardRun });
    await attack({ model: standardRun, numExamples: 12, device: "cpu" });
    const { runs, comparisons } = await compare({ runs: [run.folder, standardRun] });
    expect(runs).toEqual([reviewsRun, standardRun]);
    expect(comparisons.map(({ metric }) => metric)).toEqual(["accuracy", "pwws"]);

    const { path } = await writeReport({ runs: [join(folder, "runs")], out: join(folder, "report.html") });
    expect(readFileSync(path, "utf8")).toContain("pwws");
    expect(getMemoryStats().tensors).toBe(before);
  });
});

describe("resuming a run on an array", () => {
  const out = join(folder, "stopped");

  test("continues with the same array or from the command line, bitwise identically", async () => {
    const controller = new AbortController();
    const callbacks = listen({ step: ({ step }) => step === 10 && controller.abort() });
    await expect(train({ ...config, out }, { ...callbacks, signal: controller.signal })).rejects.toBeInstanceOf(
      Interrupted,
    );
    const stopped = readFileSync(join(out, "events.jsonl"));
    expect(await invoke(["train", "--resume", "--out", out, "--quiet"])).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(join(out, "events.jsonl"))).toEqual(readFileSync(join(reviewsRun, "events.jsonl")));
    expect(readFileSync(join(out, "events.jsonl")).length).toBeGreaterThan(stopped.length);
    const again = await train({ ...config, out, resume: true });
    expect((await again.results())!.test).toEqual((await (await Run.open(reviewsRun)).results())!.test);
  });

  test("rejects another array and keeps the stored examples", async () => {
    const changed = join(folder, "changed");
    const controller = new AbortController();
    const callbacks = { ...listen({ step: () => controller.abort() }), signal: controller.signal };
    await expect(train({ ...config, out: changed }, callbacks)).rejects.toBeInstanceOf(Interrupted);
    const stored = readFileSync(join(changed, "data.jsonl"));
    const other = { ...config, data: [...examples.slice(1), { text: "the cold scene", label: "negative" }] };
    await expect(train({ ...other, out: changed, resume: true })).rejects.toThrow(
      "the examples changed since the run started",
    );
    expect(readFileSync(join(changed, "data.jsonl"))).toEqual(stored);
  });
});

describe("custom methods", () => {
  const out = join(folder, "custom");

  test("are recorded by name and options, and can be resumed with their definition", async () => {
    const controller = new AbortController();
    const methods = [scaledLoss({ factor: 3 })];
    const callbacks = listen({ step: ({ step }) => step === 5 && controller.abort() });
    await expect(
      train({ ...config, methods, out }, { ...callbacks, signal: controller.signal }),
    ).rejects.toBeInstanceOf(Interrupted);
    const run = await train({ ...config, methods, out, resume: true });
    expect(run.method).toBe("scaled-loss");
    expect((await run.results())!.methods).toEqual([{ name: "scaled-loss", options: { factor: 3 } }]);
    expect(await run.configText()).toContain("methods:\n  - scaled-loss:\n      factor: 3\n");
  });

  test("are rejected by name if a resumed run does not know them", async () => {
    const stopped = join(folder, "custom-stopped");
    const controller = new AbortController();
    const callbacks = { ...listen({ step: () => controller.abort() }), signal: controller.signal };
    await expect(train({ ...config, methods: [scaledLoss()], out: stopped }, callbacks)).rejects.toBeInstanceOf(
      Interrupted,
    );
    const { code, stderr } = await invoke(["train", "--resume", "--out", stopped]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/methods\[0\] \(scaled-loss\): unknown method\. .*path of a module with a custom method/);
    const methods = [{ name: "scaled-loss", options: {} }];
    await expect(train({ ...config, methods, out: stopped, resume: true })).rejects.toThrow(
      /scaled-loss.*unknown method/,
    );
    // Attacks and evaluations do not need the method.
    expect((await Run.open(stopped)).method).toBe("scaled-loss");
  });

  test("can be loaded from a module on the command line", async () => {
    const module = join(folder, "scaled.js");
    writeFileSync(
      module,
      `export default { name: "scaled", summary: "", paper: "", options: { safeParse: (data) => ({ success: true, data }) },
        create: ({ factor }) => ({ name: "scaled", losses: (_, next) => new Map([...next()].map(([name, loss]) => [name, loss.mul(factor)])) }) };`,
    );
    const path = join(folder, "module-run");
    const data = join(reviewsRun, "data.jsonl");
    const flags = ["--model", String(config.model), "--data", data, "--device", "cpu", "--threads", "1"];
    const settings = ["--epochs", "1", "--batch-size", "8", "--learning-rate", "1e-2", "--out", path, "--quiet"];
    const trained = await invoke(["train", ...flags, ...settings, "--method", `${module}:factor=3`]);
    expect(trained).toMatchObject({ code: 0, stderr: "" });
    const run = await Run.open(path);
    expect(run.config.methods).toEqual([{ name: module, options: { factor: 3 } }]);
    expect(run.method).toBe("scaled");
    expect(existsSync(run.path("model"))).toBe(true);
  });
});
