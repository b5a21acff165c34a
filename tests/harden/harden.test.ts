import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { Interrupted } from "../../src/base/errors.js";
import type { Callbacks } from "../../src/base/events.js";
import type { MetricComparison } from "../../src/evaluation/compare.js";
import type { HardenTime } from "../../src/harden/estimate.js";
import { type HardenCallbacks, harden } from "../../src/harden/harden.js";
import { type HardenRequest, hardenRequestSchema } from "../../src/harden/harden-request.js";
import { type Choice, type HardenPlan, planHardening, warnAboutData } from "../../src/harden/plan.js";
import { readHardenData } from "../../src/harden/read-data.js";
import { chooseSizes, defaultSizes, sizeLadder } from "../../src/harden/sizes.js";
import { describeHardening } from "../../src/harden/verdict.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { invoke } from "../cli/invoke.js";
import { expectClose, float64 } from "../rounding.js";
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

/** Reads data and makes the default choices, without training anything. */
async function plan(data: string, more: HardenRequest = {}, warnings: string[] = []): Promise<HardenPlan> {
  const request = hardenRequestSchema.parse({ data, out: join(folder, "planned"), ...more });
  const onEvent: Callbacks["onEvent"] = (event) => void (event.type === "warning" && warnings.push(event.message));
  const read = await readHardenData(request, { onEvent });
  warnAboutData(request, read, { onEvent });
  return planHardening(request, read, defaultSizes);
}

async function planEpochs(data: string, more: HardenRequest = {}): Promise<Choice | undefined> {
  return (await plan(data, more)).choices.find(({ name }) => name === "epochs");
}

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
    expect(stdout).toMatch(/method +ascc:beta=1\S* +\S.* --method/);
    expect(stdout).toMatch(/epochs +10 +as you asked/);
    expect(stderr).toContain("1/4 Training the standard model");
    expect(stderr).toContain("4/4 Attacking the robust model (pwws)");
    expect(existsSync(join(out, "report.html"))).toBe(true);
    const [standard, robust] = await Promise.all(["standard", "robust"].map((name) => RunFolder.open(join(out, name))));
    const { methods: none, ...common } = standard!.config;
    const { methods, ...others } = robust!.config;
    expect([none, methods.map(({ name }) => name)]).toEqual([[], ["ascc"]]);
    // The robust model continues the standard one, slowly at first.
    const changed = {
      model: join(out, "standard", "model"),
      train: { metricForBestModel: "robust-accuracy", warmupRatio: 0.1 },
    };
    expect(others).toEqual({ ...common, ...changed, train: { ...common.train, ...changed.train } });
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

    const compared = JSON.parse((await invoke(["compare", out, "--json"])).stdout) as { runs: string[] };
    expect(compared.runs).toEqual(["standard", "robust"]);

    const refused = await invoke([...command, "--no-resume"]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("already contains a run");
    writeCsv("balanced", balanced.slice(0, 80));
    expect((await invoke(command)).stderr).toContain("the data has changed. Choose a different --out.");
  });

  it("trains few texts for more epochs", async () => {
    // 63% of the texts are for training: two steps of 32 texts per epoch. Of many texts, a sample is used.
    expect(await planEpochs(writeCsv("few", reviews(90)))).toMatchObject({
      value: "38",
      reason: "56 training texts give 76 steps; a small model needs about 75",
    });
    expect(await planEpochs(writeCsv("many", reviews(3000)))).toMatchObject({
      value: "2",
      reason: "1,500 training texts give 94 steps; a small model needs about 75",
    });
  });

  it("chooses sizes for 600 reviews of 120 words that two cores train and attack in less than ten minutes", async () => {
    const long = reviews(3600).flatMap((_, i, all) =>
      i % 6 === 0
        ? [
            {
              text: `${i} ${all
                .slice(i, i + 30)
                .map(({ text }) => text)
                .join(" ")}`,
              label: i % 12 ? "good" : "bad",
            },
          ]
        : [],
    );
    const { settings: chosen, numExamples, choices } = await plan(writeCsv("long", long));
    expect(chosen).toMatchObject({ maxLength: 96, train: { batchSize: 16, epochs: 5 } });
    expect(numExamples).toBe(100);
    expect(choices.find(({ name }) => name === "epochs")!.reason).toContain("give 120 steps");
  });

  it("asks for data, and not for columns that it would guess", async () => {
    const { code, stderr } = await invoke(["harden"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "temper: Expected --data FILE, such as reviews.csv, or --task NAME, such as sst2.\n",
    });
    await expect(harden({})).rejects.toThrow("Expected data, such as reviews.csv, or task, such as sst2.");
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
    const { plan: made, verdict } = await harden({
      ...request,
      learningRate: 0,
      epochs: 1,
      out: join(folder, "imbalanced"),
    });
    const positives = made.classes.find(({ label }) => label === "positive")!;
    expect(made.classes.reduce((sum, { train, validation, test }) => sum + train + validation + test, 0)).toBe(
      rare.length,
    );
    expect(made.settings.train).toMatchObject({ batchSampler: "class-balanced" });
    expect(positives.train).toBeGreaterThan(0);
    expect(verdict).toMatch(
      /^Nothing can be claimed under pwws: (the standard and the robust model are|the standard model is) degenerate\. The reason.*Next: add/,
    );
  });

  it("an attempt that stopped does not stop another one, and says how long it would have taken", async () => {
    const out = join(folder, "stopped");
    const request = { data: writeCsv("stopped", balanced), model, substitutions, epochs: 1, out };
    const runtime = { device: "cpu", threads: 1, precision: "fp32" } as const;
    const warnings: string[] = [];
    const attempt = async (stage: string, more: HardenRequest = {}): Promise<HardenTime | null> => {
      let measured: HardenTime | null = null;
      const callbacks: HardenCallbacks = {
        onPlan(_, time) {
          measured = time;
        },
        onStage(_, sentence) {
          if (sentence.includes(stage)) throw new Interrupted(stage);
        },
        onEvent: (event) => void (event.type === "warning" && warnings.push(event.message)),
      };
      await expect(harden({ ...request, ...runtime, ...more }, callbacks)).rejects.toThrow(stage);
      return measured;
    };
    const first = (await attempt("robust"))!;
    expect(Math.min(first.standard, first.robust, first.attacks)).toBeGreaterThan(0);
    expectClose([first.total], [first.standard + first.robust + first.attacks], float64);
    // The standard model is trained, so its time is not counted again.
    expect(await attempt("robust")).toMatchObject({ standard: 0 });
    expect(warnings.join()).not.toContain("moved");
    expect((await attempt("standard", { learningRate: 0.001 }))!.standard).toBeGreaterThan(0);
    expect(warnings).toContainEqual(expect.stringMatching(/unfinished attempt with other settings.*earlier-1/));
    expect(existsSync(join(out, ".earlier-1", "standard", "results.json"))).toBe(true);
    writeCsv("stopped", balanced.slice(0, 80));
    await attempt("standard");
    expect(existsSync(join(out, "standard"))).toBe(false);
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

/** Writes a file with these lines. */
function write(name: string, lines: readonly string[], end = "\n"): string {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => `${line}${end}`).join(""));
  return path;
}

const csvLines = (rows: readonly { text: string; label: string }[]): string[] => [
  "id,Review,Stars",
  ...rows.map(({ text, label }, i) => `${i},${text},${label}`),
];

describe("messy files:", () => {
  it("columns are guessed and said, with a byte-order mark, CRLF and empty lines", async () => {
    const [head, ...rows] = csvLines(reviews(120));
    const path = write("messy.csv", [`\uFEFF${head}`, "", ...rows, "", ""], "\r\n");
    const { choices, classes } = await plan(path);
    expect(choices.slice(0, 2)).toMatchObject([
      { name: "text column", value: "Review", reason: expect.stringContaining("longest texts"), key: "textColumn" },
      { name: "label column", value: "Stars", reason: "has 2 different values in 120 rows", key: "labelColumn" },
    ]);
    expect(classes.reduce((sum, { train, validation, test }) => sum + train + validation + test, 0)).toBe(120);
    // Nobody is told what was asked for.
    const named = await plan(path, { textColumn: ["Review"], labelColumn: "Stars" });
    expect(named.choices.map(({ name }) => name).join()).not.toContain("column");
  });

  it("columns that could both have the labels are an error that names them", async () => {
    const rows = reviews(60).map(({ text, label }, i) => `${text},${label},${i % 2 ? "yes" : "no"}`);
    const path = write("two.csv", ["Review,Mood,Verified", ...rows]);
    const message = "two.csv: several columns could have the labels: Mood, Verified. Name the right one with ";
    await expect(harden({ data: path })).rejects.toThrow(`${message}labelColumn.`);
    expect((await invoke(["harden", "--data", path])).stderr).toContain(`${message}--label-column.`);
    const ids = write("ids.csv", ["id,Review", ...reviews(60).map(({ text }, i) => `${i},${text}`)]);
    await expect(harden({ data: ids })).rejects.toThrow("no column looks like labels");
  });

  it("rows without a text or label are an error, or few of them are skipped", async () => {
    const path = write("holes.csv", [...csvLines(reviews(100)), "100,,positive", "101,a film,"]);
    await expect(plan(path)).rejects.toThrow(/2 of 102 rows cannot be used: line 102 has no "Review"; line 103/);
    const warnings: string[] = [];
    await plan(path, { skipBadRows: true }, warnings);
    expect(warnings).toContainEqual(expect.stringContaining("skipped 2 of 102 rows"));
    const worse = write("worse.csv", [...csvLines(reviews(100)), ...Array.from({ length: 6 }, () => "7,,positive")]);
    await expect(plan(worse, { skipBadRows: true })).rejects.toThrow("At most 5% may be skipped");
  });

  it("all bad labels are named at once with their lines, and a map of these alone corrects them", async () => {
    const path = write("typos.csv", [
      ...csvLines(reviews(200)),
      "200,a fine film,Positive",
      "201,dull,negtive",
      "202,dull,negtive",
    ]);
    const out = join(folder, "typos-out");
    const { code, stderr } = await invoke(["harden", "--data", path, ...settings().slice(4), "--out", out]);
    expect(code).toBe(2);
    expect(stderr).toContain(
      '2 labels have too few texts to be learned:\n  "Positive": 1 text (line 202); did you mean "positive"?\n' +
        '  "negtive": 2 texts (lines 203, 204); did you mean "negative"?\n',
    );
    expect(stderr).toContain("--label-map Positive=positive,negtive=negative");
    // Nothing is left that could stop the next attempt.
    expect(existsSync(out)).toBe(false);
    // A map that corrects some of them is part of the one that corrects all.
    const some = plan(path, { labelMap: "Positive=positive" });
    await expect(some).rejects.toThrow("Positive=positive,negtive=negative");
    const { classes } = await plan(path, { labelMap: "Positive=positive,negtive=negative" });
    expect(classes.map(({ label, train, validation, test }) => [label, train + validation + test])).toEqual([
      ["positive", 101],
      ["negative", 102],
    ]);
  });

  it("5% of a class: the steps are those of the batches that the sampler gives", async () => {
    const rows = reviews(760).filter(({ label }, i) => label === "negative" || i % 20 === 1);
    const planned = await plan(write("rare.csv", csvLines(rows)));
    const { train } = planned.settings;
    expect(train).toMatchObject({ batchSampler: "class-balanced", batchSize: 32 });
    const texts = planned.classes.reduce((sum, each) => sum + each.train, 0);
    const steps = Math.ceil(texts / 32) * train!.epochs!;
    expect(steps).toBeGreaterThanOrEqual(75);
    expect(steps).toBeLessThan(75 + Math.ceil(texts / 32));
    expect((await planEpochs(write("rare.csv", csvLines(rows))))!.reason).toContain(`give ${steps} steps`);
  });

  it("nothing is left of an attempt whose steps cannot be measured", async () => {
    const out = join(folder, "no-model");
    const command = ["harden", "--data", writeCsv("no-model", balanced), ...settings(), "--out", out];
    const { code, stderr } = await invoke([...command, "--model", join(folder, "substitutions.json")]);
    expect({ code, lines: stderr.trim().split("\n").length }).toEqual({ code: 2, lines: 1 });
    expect(existsSync(out)).toBe(false);
  });

  it("texts in another language get a warning", async () => {
    const words = "der film ist sehr gut und die schauspieler sind toll wir haben ihn gern gesehen".split(" ");
    const rows = Array.from({ length: 60 }, (_, i) => ({
      text: [...words.slice(i % 7), ...words, String(i)].join(" "),
      label: i % 2 ? "gut" : "schlecht",
    }));
    const warnings: string[] = [];
    await plan(write("german.csv", csvLines(rows)), {}, warnings);
    expect(warnings).toContainEqual(expect.stringContaining("do not look English"));
  });

  it("40,000 rows are read, and a sample of them is trained on", async () => {
    const planned = await plan(write("large.csv", csvLines(reviews(40_000))));
    expect(planned.classes.reduce((sum, { train, validation, test }) => sum + train + validation + test, 0)).toBe(
      40_000,
    );
    expect(planned.settings.maxTrainSamples).toBe(defaultSizes.trainTexts);
    expect(planned.numExamples).toBe(200);
  });
});

describe("minutes", () => {
  it("choose the largest sizes that fit, or the smallest ones", async () => {
    const estimate = async ({ steps }: { steps: number }): Promise<number> => steps;
    expect(await chooseSizes(151, estimate)).toEqual(sizeLadder.findLast(({ steps }) => steps <= 151));
    expect(await chooseSizes(10_000, estimate)).toEqual(sizeLadder.at(-1));
    expect(await chooseSizes(1, estimate)).toEqual(sizeLadder[0]);
  });

  it("too few for enough steps are named as the reason", async () => {
    const request = hardenRequestSchema.parse({ data: writeCsv("short", reviews(90)), out: join(folder, "planned") });
    const { choices } = planHardening(request, await readHardenData(request, {}), sizeLadder[0]!);
    expect(choices.find(({ name }) => name === "epochs")!.reason).toBe(
      "56 training texts give 26 steps; more do not fit, though a small model needs about 75",
    );
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

  const [ham, spam] = ["it predicts ham for 180 of 180 texts", "it predicts spam for 180 of 180 texts"];

  it.each([
    {
      title: "names a gain with its cost",
      clean: comparison("accuracy", "second", 0.7, 0.75),
      attacked: comparison("pwws", "first", 0.6, 0.45),
      degeneracy: sound,
      expected: [
        "Gained: under pwws, the robust model is right on 60.0% instead of 45.0% of 180 texts",
        "15.0 points (95% CI 10.0 to 20.0; p < 0.001)",
        "It cost accuracy without an attack: 70.0% instead of 75.0%",
        "temper attack runs/robust --attack textfooler",
      ],
      unexpected: /degenerate/,
    },
    {
      title: "claims neither a gain nor a cost that is not significant",
      clean: comparison("accuracy", null, 0.7, 0.75),
      attacked: comparison("pwws", null, 0.6, 0.55),
      degeneracy: sound,
      expected: ["No significant difference under pwws", "No significant cost"],
      unexpected: /Gained|deploy/,
    },
    {
      title: "names a degenerate robust model",
      clean: comparison("accuracy", null, 0.5, 0.75),
      attacked: comparison("pwws", null, 0.5, 0.3),
      degeneracy: { standard: null, robust: ham },
      expected: [`the robust model is degenerate. The reason: ${ham}.`, "--epochs 12"],
      unexpected: /Gained/,
    },
    {
      title: "says in few words that both models are degenerate, without numbers of theirs",
      clean: comparison("accuracy", null, 0.5, 0.75),
      attacked: comparison("pwws", null, 0.5, 0.3),
      degeneracy: { standard: spam, robust: ham },
      expected: [`the standard and the robust model are degenerate. The reason of the standard one: ${spam}. Next: `],
      unexpected: /50\.0%|75\.0%|30\.0%/,
    },
  ])("$title", ({ clean, attacked, degeneracy, expected, unexpected }) => {
    const verdict = describeHardening({ ...rest, clean, attacked, degeneracy });
    for (const text of expected) expect(verdict).toContain(text);
    expect(verdict).not.toMatch(unexpected);
  });
});
