import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { analyzeGeometry } from "../../src/analysis/geometry-of-runs.js";
import { analyzeLandscape } from "../../src/analysis/landscape-of-runs.js";
import { readFinishedRuns } from "../../src/analysis/load-runs.js";
import { type JournalHeader, JournalWriter } from "../../src/attacks/journal.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { fineTune } from "../../src/runs/fine-tune.js";
import { getMemoryStats } from "../../src/tensor/index.js";
import { buildIfStale, main } from "../cli/built.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const runOf = (name: string): string => join(folder, "runs", name);

/** A journal of an attack on ten texts: one wrong from the start, so many that held. */
async function writeJournal(run: string, attack: string, held: number, done = 10): Promise<void> {
  const header: JournalHeader = { attack, options: {}, hashes: {}, settings: {}, seed: 0, examples: 10 };
  const journal = await JournalWriter.open(join(run, "attacks", `${attack}.jsonl`), header);
  for (let i = 0; i < done; i++) {
    const outcome = i === 0 ? "skipped" : i <= held ? "failed" : "success";
    const result: AttackResult = {
      ...{
        id: String(i),
        label: i % 2,
        outcome,
        queries: 5,
        exhausted: false,
        nearTie: false,
        withoutLanguageModel: false,
      },
      ...{
        before: [0.9, 0.1],
        after: [0.4, 0.6],
        edits: [],
        texts: ["a"],
        fieldSizes: [1],
        words: ["a"],
        final: ["a"],
      },
      space: { words: 1, modifiableWords: 1, substitutes: 1, log10Combinations: 0.3 },
    };
    journal.append(result);
  }
  journal.close();
}

beforeAll(async () => {
  const config = await tinyRun(folder, { maxValidationSamples: 10, train: { epochs: 1, evalSteps: 4 } });
  await fineTune({ ...config, methods: ["standard"] }, { out: runOf("standard") });
  await fineTune({ ...config, methods: ["r-drop:alpha=0.1"] }, { out: runOf("low") });
  await fineTune({ ...config, methods: ["r-drop:alpha=1"], seed: 1 }, { out: runOf("high") });
  await writeJournal(runOf("standard"), "pwws", 3);
  await writeJournal(runOf("standard"), "genetic", 4);
  await writeJournal(runOf("low"), "pwws", 6);
  await writeJournal(runOf("high"), "pwws", 8);
});

/** Runs an analysis and reads what it wrote. */
async function analyze(
  ...argv: string[]
): Promise<{ stdout: string; data: Record<string, unknown>; svg: string; out: string }> {
  const out = join(folder, "out");
  rmSync(out, { recursive: true, force: true });
  const before = getMemoryStats().tensors;
  const { code, stdout, stderr } = await invoke(["analyze", ...argv, "--out", out, "--quiet"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(getMemoryStats().tensors).toBe(before);
  const [name] = argv;
  return {
    stdout,
    out,
    data: JSON.parse(readFileSync(join(out, `${name}.json`), "utf8")),
    svg: readFileSync(join(out, `${name}.svg`), "utf8"),
  };
}

/** A figure is a whole SVG with a title and a text beside it, and no number that is none. */
function expectFigure(svg: string, ...words: string[]): void {
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  expect(svg).toMatch(/<title>.+<\/title>\n<desc>.+<\/desc>/);
  expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  for (const word of words) expect(svg).toContain(word);
}

describe("temper analyze", () => {
  it("distance: logged over training, ending at the model that was kept", async () => {
    const { data, svg, stdout } = await analyze(
      "distance",
      runOf("standard"),
      runOf("low"),
      runOf("high"),
      "--by",
      "alpha",
    );
    const runs = data.runs as {
      label: string;
      option: number | null;
      bestStep: number;
      curve: { step: number; distance: { all: number } }[];
      final: { all: number };
    }[];
    expect(runs.map(({ label, option }) => [label, option])).toEqual([
      ["standard", null],
      ["r-drop alpha 0.1 seed 0", 0.1],
      ["r-drop alpha 1 seed 1", 1],
    ]);
    for (const { curve, bestStep, final } of runs) {
      expect(curve[0]).toMatchObject({ step: 0, distance: { all: 0 } });
      expect(curve.length).toBeGreaterThan(3);
      expect(curve.find(({ step }) => step === bestStep)!.distance.all).toBeCloseTo(final.all, 5);
    }
    expectFigure(svg, "against alpha", "over training");
    expect(stdout).toContain(data.meaning as string);
  });

  it("distance: from checkpoints where events do not tell", async () => {
    const events = join(runOf("low"), "events.jsonl");
    const before = readFileSync(events, "utf8");
    const logged = (
      (await analyze("distance", runOf("low"))).data.runs as { curve: { step: number; distance: object }[] }[]
    )[0]!.curve;
    writeFileSync(events, before.replace(/,"distance":\{[^}]*\}/g, ""));
    const kept = (
      (await analyze("distance", runOf("low"))).data.runs as typeof logged extends infer C ? { curve: C }[] : never
    )[0]!.curve;
    writeFileSync(events, before);
    expect(kept.length).toBeGreaterThan(1);
    expect(kept.length).toBeLessThan(logged.length);
    for (const { step, distance } of kept)
      expect(distance).toEqual(logged.find((point) => point.step === step)!.distance);
  });

  it("tradeoff and ablation: from the attacks in each run's folder", async () => {
    const { data, svg } = await analyze("tradeoff", join(folder, "runs"));
    expect(data.attacks).toEqual(["genetic", "pwws"]);
    expect(data.meaning).toMatch(/under pwws r-drop alpha 1 seed 1 holds best \(80\.0%/);
    expectFigure(svg, "under genetic", "under pwws");
    const ablation = await analyze("ablation", join(folder, "runs"), "--by", "alpha");
    expect(ablation.data.values).toMatchObject([
      { value: 0.1, mean: { pwws: 0.6 } },
      { value: 1, mean: { pwws: 0.8 } },
    ]);
    expectFigure(ablation.svg, "What alpha does");
  });

  it("an attack that has not finished is left out, with a note", async () => {
    await writeJournal(runOf("low"), "genetic", 3, 6);
    const { stderr, code } = await invoke(["analyze", "tradeoff", join(folder, "runs"), "--out", join(folder, "out")]);
    expect(code).toBe(0);
    expect(stderr).toMatch(/genetic\.jsonl: 6 of 10 examples are done, so it is left out/);
    rmSync(join(runOf("low"), "attacks", "genetic.jsonl"));
  });

  it("geometry: a panel before fine-tuning, and one a run", async () => {
    const { data, svg } = await analyze(
      "geometry",
      runOf("standard"),
      runOf("low"),
      "--num-examples",
      "12",
      "--iterations",
      "30",
    );
    const models = data.models as {
      label: string;
      overall: { alignment: number };
      student: number[];
      teacher: number[] | null;
    }[];
    expect(models.map(({ label }) => label)).toEqual(["before fine-tuning", "standard", "r-drop"]);
    expect(models[0]).toMatchObject({ teacher: null, overall: { alignment: 0 } });
    for (const { student, teacher, overall } of models.slice(1)) {
      expect([student.length, teacher!.length]).toEqual([12, 12]);
      expect(overall.alignment).toBeGreaterThan(0);
    }
    expectFigure(svg, "uniformity");
  });

  it("geometry: three examples of two classes are enough", async () => {
    const { svg } = await analyze("geometry", runOf("standard"), "--num-examples", "3", "--iterations", "30");
    expectFigure(svg, "uniformity");
  });

  it("landscape: resumed from its points, with a picture on request", async () => {
    const argv = ["landscape", runOf("standard"), runOf("low"), "--pretrained", "--points", "5", "--num-examples", "8"];
    const { data, svg, out, stdout } = await analyze(...argv, "--png");
    expect((data.models as { label: string }[]).map(({ label }) => label)).toEqual([
      "pre-trained",
      "standard",
      "r-drop",
    ]);
    expect(stdout).toMatch(/lies flattest/);
    expectFigure(svg, "alpha");
    expect([...readFileSync(join(out, "landscape.png")).subarray(1, 4)]).toEqual([...Buffer.from("PNG")]);
    // What a killed process leaves: some points, and half a line.
    const points = readFileSync(join(out, "landscape.points.jsonl"), "utf8").split("\n");
    expect(points).toHaveLength(3 * 25 + 1);
    writeFileSync(join(out, "landscape.points.jsonl"), `${points.slice(0, 30).join("\n")}\n${points[30]!.slice(0, 9)}`);
    expect((await invoke(["analyze", ...argv, "--out", out, "--quiet"])).code).toBe(0);
    expect(JSON.parse(readFileSync(join(out, "landscape.json"), "utf8"))).toEqual(data);
  });

  it("landscape: points of other settings stay", async () => {
    const argv = ["landscape", runOf("standard"), "--points", "5", "--num-examples", "8"];
    const { out, data } = await analyze(...argv);
    const points = (): string => readFileSync(join(out, "landscape.points.jsonl"), "utf8");
    const before = points();
    const again = (...more: string[]) => invoke(["analyze", ...argv, "--out", out, "--quiet", ...more]);
    for (const other of [
      ["--points", "7"],
      ["--seed", "1"],
      ["--num-examples", "6"],
    ]) {
      const known = points();
      expect((await again(...other)).code).toBe(0);
      expect(points().startsWith(known)).toBe(true);
      expect(points().length).toBeGreaterThan(known.length);
    }
    const all = points();
    expect(all.startsWith(before)).toBe(true);
    expect((await again()).code).toBe(0);
    expect(points()).toBe(all);
    expect(JSON.parse(readFileSync(join(out, "landscape.json"), "utf8"))).toEqual(data);
  });

  it("landscape: Ctrl-C says how to go on", async () => {
    buildIfStale();
    const out = join(folder, "stopped");
    const argv = [
      "analyze",
      "landscape",
      runOf("standard"),
      "--points",
      "501",
      "--num-examples",
      "8",
      "--device",
      "cpu",
      "--out",
      out,
    ];
    const child = spawn(process.execPath, [main, ...argv], { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk;
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    const kept = (): number => statSync(join(out, "landscape.points.jsonl"), { throwIfNoEntry: false })?.size ?? 0;
    while (kept() === 0 && child.exitCode === null) await delay(5);
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(stderr).toContain(`stopped; every finished point is kept. Go on with: temper ${argv.join(" ")}\n`);
  }, 120_000);

  it("interpolation: both ends are the models", async () => {
    const { data, svg } = await analyze(
      "interpolation",
      runOf("standard"),
      runOf("low"),
      "--points",
      "5",
      "--num-examples",
      "12",
    );
    expect((data.points as { alpha: number }[]).map(({ alpha }) => alpha)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
    expectFigure(svg, "Between standard and r-drop");
  });

  it("consistency: from a two-pass run's own events, else by training again", async () => {
    const { data, svg } = await analyze("consistency", runOf("low"), "--steps", "2,4");
    expect((data.first as { steps: number }[]).map(({ steps }) => steps)).toEqual([2, 4]);
    expectFigure(svg, "differ");
    const again = await analyze("consistency", runOf("standard"), "--steps", "3");
    expect(again.data.steps).toHaveLength(3);
  });

  it("probe: each run a point, kept when done", async () => {
    const probe = "control_raising_length";
    const data = join(folder, "msgs");
    writeProbe(join(data, probe));
    const argv = [
      "probe",
      join(folder, "tiny-bert"),
      "--probe",
      probe,
      "--method",
      "standard",
      "--method",
      "r-drop:alpha=0.1",
      "--seeds",
      "2",
      "--data",
      data,
    ];
    const first = await analyze(...argv, "--device", "cpu", "--threads", "1");
    const runs = first.data.runs as { method: string; seed: number; score: number }[];
    expect(runs.map(({ method, seed }) => `${method} ${seed}`)).toEqual([
      "standard 0",
      "standard 1",
      "r-drop:alpha=0.1 0",
      "r-drop:alpha=0.1 1",
    ]);
    for (const { score } of runs) expect(Math.abs(score)).toBeLessThanOrEqual(1);
    expectFigure(first.svg, "Matthews score", "r-drop:alpha=0.1");
    expect(readFileSync(join(first.out, "probe.runs.jsonl"), "utf8").trim().split("\n")).toHaveLength(4);
  });

  it("writes into the run's own folder, and prints JSON", async () => {
    const { code, stdout } = await invoke(["analyze", "distance", runOf("high"), "--json"]);
    expect(code).toBe(0);
    const printed = JSON.parse(stdout) as { analysis: string; files: { svg: string } };
    expect(printed).toMatchObject({
      format: 1,
      analysis: "distance",
      files: { svg: join(runOf("high"), "analysis", "distance.svg") },
    });
    expect(existsSync(printed.files.svg)).toBe(true);
  });
});

describe("bad input is told in plain words", () => {
  it.each([
    [["distance", "nowhere"], /nowhere/],
    [["tradeoff", "RUN/high-without"], /high-without/],
    [
      ["ablation", "RUN/standard", "--by", "alpha"],
      /--by alpha: expected runs with two values at least, received none that has this option/,
    ],
    [["landscape", "RUN/standard", "--points", "4"], /odd number/],
    [["landscape", "RUN/standard", "--range", "0"], /number above 0/],
    [["landscape", "RUN/standard", "--range=-1"], /number above 0/],
    [["geometry", "RUN/standard", "--num-examples", "2"], /whole number from 3/],
    [["geometry", "RUN/standard", "--split", "dev"], /Unknown split "dev"\. It is now called test/],
    [["interpolation", "RUN/standard", "RUN/standard"], /expected two runs, received 1/],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--points", "2"],
      /--points 2: expected a point between the two models.* give more --points/,
    ],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--from", "2", "--to", "3"],
      /none lies there; .* a range that holds 0 to 1/,
    ],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--from", "2", "--to", "1"],
      /--from 2 --to 1: expected a line that ends beyond/,
    ],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--from", "1", "--to", "1"],
      /--from 1 --to 1: expected a line that ends beyond/,
    ],
    [["probe", "no-such-folder/model", "--method", "rosy"], /there is no such method/],
    [["consistency", "RUN/standard", "--steps", "many"], /numbers of steps/],
  ])("%j", async (argv, message) => {
    const { code, stdout, stderr } = await invoke([
      "analyze",
      ...argv.map((word) => word.replace("RUN", join(folder, "runs"))),
    ]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/ at .*\.ts:/);
  });

  it("to callers of the library too", async () => {
    const runs = await readFinishedRuns([runOf("standard")]);
    const options = { seed: 0, device: "cpu", out: join(folder, "out"), pretrained: false } as const;
    await expect(analyzeGeometry(runs, { ...options, examples: 2 })).rejects.toThrow(
      /--num-examples 2: expected two examples of one class/,
    );
    const landscape = (range: number, points: number) =>
      analyzeLandscape(runs, { ...options, examples: 8, range, points });
    for (const range of [0, -1, Number.NaN])
      await expect(landscape(range, 5)).rejects.toThrow(/--range: expected a number above 0/);
    await expect(landscape(0.25, 4)).rejects.toThrow(/--points: expected an odd number/);
  });
});

/** A probe of a few sentences, in the layout of the real ones. */
function writeProbe(path: string): void {
  mkdirSync(path, { recursive: true });
  const line = (i: number, condition: string): string =>
    JSON.stringify({
      sentence: `${i % 2 ? "the" : "a"} film was ${i % 2 ? "good" : "bad"}`,
      linguistic_feature_label: i % 2,
      condition,
    });
  const lines = (count: number, condition: string): string[] =>
    Array.from({ length: count }, (_, i) => line(i, condition));
  writeFileSync(join(path, "train.jsonl"), `${lines(16, "training").join("\n")}\n`);
  writeFileSync(join(path, "inoculating.jsonl"), `${lines(4, "training").join("\n")}\n`);
  writeFileSync(
    join(path, "test.jsonl"),
    `${[...lines(8, "training"), ...lines(8, "test"), ...lines(8, "control")].join("\n")}\n`,
  );
}
