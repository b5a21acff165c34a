import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { MetricComparison } from "../../src/evaluation/compare.js";
import { harden } from "../../src/harden/harden.js";
import { hardenRequestSchema } from "../../src/harden/harden-request.js";
import { planHardening } from "../../src/harden/plan.js";
import { describeHardening } from "../../src/harden/verdict.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
let model = "";
let substitutions = "";

beforeAll(async () => {
  model = await writeTinyBert(join(folder, "tiny-bert"), ["table", "chair"]);
  substitutions = join(folder, "substitutions.json");
  const table = { good: ["warm", "cold"], bad: ["dull", "bright"], film: ["scene"], dull: ["grey"], fine: ["bright"] };
  writeFileSync(substitutions, JSON.stringify(table));
});

/** Writes a CSV file with columns that are not called text and label. */
function writeCsv(name: string, rows: readonly { text: string; label: string }[]): string {
  const path = join(folder, `${name}.csv`);
  writeFileSync(path, `Review,Stars\n${rows.map(({ text, label }) => `${text},${label}\n`).join("")}`);
  return path;
}

const settings = () => [
  ...["--text-column", "Review", "--label-column", "Stars", "--model", model, "--substitutions", substitutions],
  ...["--learning-rate", "0.01", "--device", "cpu", "--threads", "1", "--precision", "fp32"],
];

const balanced = reviews(90);

describe("temper harden", () => {
  it("writes two runs and a report, explains its choices, and continues what is there", async () => {
    const out = join(folder, "balanced");
    const data = writeCsv("balanced", balanced);
    const command = ["harden", "--data", data, ...settings(), "--epochs", "10", "--out", out];
    const { code, stdout, stderr } = await invoke(command);
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      /label of balanced +train +validation +test\nnegative +\d+ +\d+ +14\npositive +\d+ +\d+ +14\n/,
    );
    expect(stdout).toMatch(/method +ascc:beta=4\S* +\S.* --method/);
    expect(stdout).toMatch(/epochs +10 +as you asked/);
    expect(stderr).toContain("1/4 Training the standard model");
    expect(stderr).toContain("4/4 Attacking the robust model (pwws)");
    expect(existsSync(join(out, "report.html"))).toBe(true);
    const [standard, robust] = await Promise.all(["standard", "robust"].map((name) => RunFolder.open(join(out, name))));
    const { methods: none, ...common } = standard!.config;
    const { methods, ...others } = robust!.config;
    expect([none, methods.map(({ name }) => name)]).toEqual([[], ["ascc"]]);
    const { metricForBestModel: _, ...trained } = others.train;
    expect({ ...common, train: { ...common.train, metricForBestModel: undefined } }).toEqual({
      ...others,
      train: { ...trained, metricForBestModel: undefined },
    });
    const journals = ["standard", "robust"].map((name) =>
      readFileSync(join(out, name, "attacks/pwws.jsonl"), "utf8")
        .trim()
        .split("\n")
        .slice(1)
        .map((line) => (JSON.parse(line) as { id: string }).id),
    );
    expect(journals[0]).toEqual(journals[1]);

    const again = await invoke([...command, "--json", "--quiet"]);
    expect(again).toMatchObject({ code: 0, stderr: "" });
    const result = JSON.parse(again.stdout) as Record<string, unknown>;
    const accuracies = { clean: expect.any(Number), underAttack: expect.any(Number) };
    expect(result).toEqual({ standard: accuracies, robust: accuracies, verdict: expect.any(String) });
    expect(stdout).toContain(result.verdict as string);

    const refused = await invoke([...command, "--no-resume"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("already contains a run");
    writeCsv("balanced", balanced.slice(0, 80));
    expect((await invoke(command)).stderr).toContain("the file has changed. Choose a different --out.");
  });

  it("trains few texts for more epochs", async () => {
    const plan = async (name: string, count: number) => {
      const columns = { textColumn: ["Review"], labelColumn: "Stars" };
      const request = { data: writeCsv(name, reviews(count)), ...columns, out: join(folder, name) };
      const { choices } = await planHardening(hardenRequestSchema.parse(request), {});
      return choices.find(({ name: choice }) => choice === "epochs");
    };
    // 63% of the texts are for training: two steps of 32 texts per epoch, and 60.
    expect(await plan("few", 90)).toMatchObject({
      value: "38",
      reason: "56 training texts give 76 steps; a small model needs about 75",
    });
    expect(await plan("many", 3000)).toMatchObject({ value: "2" });
  });

  it("reports typos before it trains or writes anything", async () => {
    const out = join(folder, "typos");
    const command = ["harden", "--data", writeCsv("typos", balanced), ...settings(), "--out", out];
    for (const [flag, value, message] of [
      ["--attack", "pwss", 'did you mean "pwws"?'],
      ["--method", "asccc", 'did you mean "ascc"?'],
      ["--attacked-label", "happy", "expected a label (negative, positive), received happy"],
    ] as const) {
      const { code, stderr } = await invoke([...command, flag, value]);
      expect(stderr).toContain(message);
      expect(code).toBe(2);
    }
    expect(existsSync(out)).toBe(false);
  });

  it("balances the batches of imbalanced data, and claims nothing about a degenerate model", async () => {
    const rare = reviews(400).filter(({ label }, i) => label === "negative" || i % 20 === 1);
    const data = writeCsv("imbalanced", rare);
    const columns = { textColumn: ["Review"], labelColumn: "Stars" };
    const runtime = { device: "cpu", threads: 1, precision: "fp32" as const };
    const request = { data, ...columns, model, substitutions, ...runtime, numExamples: 20 };
    // A learning rate of 0 leaves the random head as it is.
    const { plan, verdict } = await harden({ ...request, learningRate: 0, epochs: 1, out: join(folder, "imbalanced") });
    const positives = plan.classes.find(({ label }) => label === "positive")!;
    expect(plan.classes.reduce((sum, { train, validation, test }) => sum + train + validation + test, 0)).toBe(
      rare.length,
    );
    expect(plan.settings.train).toMatchObject({ batchSampler: "class-balanced" });
    expect(plan.settings.train!.batchSize! / 2).toBeLessThanOrEqual(positives.train);
    expect(verdict).toMatch(
      /^Nothing can be claimed under pwws, because the standard model is degenerate \(.*Next: add/s,
    );
  });

  it("handles three classes", async () => {
    const neutral = reviews(120, 3).map(({ text }) => ({
      text: `table ${text.replaceAll(/\b(good|fine|bright|warm|bad|dull|grey|cold)\b/g, "chair")}`,
      label: "neutral",
    }));
    const data = writeCsv("three", [...reviews(120), ...neutral.slice(0, 60)]);
    const { code, stdout } = await invoke([
      ...["harden", "--data", data, ...settings(), "--epochs", "4", "--num-examples", "20"],
      ...["--out", join(folder, "three"), "--json", "--quiet"],
    ]);
    expect(code).toBe(0);
    const { standard, robust, verdict } = JSON.parse(stdout) as Record<string, { clean: number; underAttack: number }>;
    expect(standard!.underAttack).toBeLessThanOrEqual(standard!.clean);
    expect(robust!.underAttack).toBeLessThanOrEqual(robust!.clean);
    expect(verdict).toContain("under pwws");
    expect((await RunFolder.open(join(folder, "three", "robust"))).config.train.batchSampler).toBe("shuffled");
  });
});

describe("the verdict", () => {
  const comparison = (metric: string, better: MetricComparison["better"], first: number, second: number) =>
    ({
      ...{ metric, better, first, second, difference: first - second, low: first - second - 0.05, high: 0.2 },
      ...{ examples: 180, p: { corrected: better ? 0.0001 : 0.4 } },
    }) as MetricComparison;
  const sound = { standard: null, robust: null };
  const rest = { attack: "pwws", robustFolder: "runs/robust", epochs: 6 };

  it("names a gain with its cost", () => {
    const verdict = describeHardening({
      ...rest,
      clean: comparison("accuracy", "second", 0.7, 0.75),
      attacked: comparison("pwws", "first", 0.6, 0.45),
      degeneracy: sound,
    });
    expect(verdict).toContain("Gained: under pwws, the robust model is right on 60.0% instead of 45.0% of 180 texts");
    expect(verdict).toContain("15.0 points (95% CI 10.0 to 20.0; p < 0.001)");
    expect(verdict).toContain("It cost accuracy without an attack: 70.0% instead of 75.0%");
    expect(verdict).toContain("temper attack runs/robust --attack textfooler");
  });

  it("claims neither a gain nor a cost that is not significant", () => {
    const verdict = describeHardening({
      ...rest,
      clean: comparison("accuracy", null, 0.7, 0.75),
      attacked: comparison("pwws", null, 0.6, 0.55),
      degeneracy: sound,
    });
    expect(verdict).toContain("No significant difference under pwws");
    expect(verdict).toContain("No significant cost");
    expect(verdict).not.toMatch(/Gained|deploy/);
  });

  it("names a degenerate robust model", () => {
    const verdict = describeHardening({
      ...rest,
      clean: comparison("accuracy", null, 0.5, 0.75),
      attacked: comparison("pwws", null, 0.5, 0.3),
      degeneracy: { standard: null, robust: "it predicts ham for 180 of 180 texts" },
    });
    expect(verdict).toContain("the robust model is degenerate (it predicts ham for 180 of 180 texts)");
    expect(verdict).toContain("--epochs 12");
    expect(verdict).not.toContain("Gained");
  });
});
