import { spawn } from "node:child_process";
import { cpSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { train } from "../../src/actions/train/train.js";
import { palette } from "../../src/analysis/colors.js";
import { type AnalysisRequest, analyze } from "../../src/analysis/index.js";
import { type JournalHeader, openJournal } from "../../src/attacks/journal.js";
import { listen } from "../../src/base/events.js";
import { getMemoryStats } from "../../src/tensor/index.js";
import { main } from "../cli/built.js";
import { invoke } from "../cli/invoke.js";
import { testLong } from "../long.js";
import { attackResult } from "../report/run-folder.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { words } from "../words.js";

const folder = temporaryFolder();
const getRun = (name: string): string => join(folder, "runs", name);

/**
 * Writes a journal of ten texts: one misclassified before the attack, `robust` ones that stay
 * correct.
 */
async function writeJournal(run: string, attack: string, robust: number, done = 10): Promise<void> {
  const header: JournalHeader = { attack, options: {}, hashes: {}, settings: {}, seed: 0, examples: 10 };
  const journal = await openJournal(join(run, "attacks", `${attack}.jsonl`), header);
  for (let i = 0; i < done; i++) {
    const outcome = i === 0 ? "skipped" : i <= robust ? "failed" : "success";
    journal.append(attackResult(String(i), "a", outcome, outcome === "success" ? { 0: "b" } : {}, i % 2));
  }
  journal.close();
}

beforeAll(async () => {
  const config = await tinyRun(folder, { maxValidationSamples: 10, train: { epochs: 1, evalSteps: 4 } });
  await train({ ...config, methods: ["standard"], out: getRun("standard") });
  await train({ ...config, methods: ["r-drop:alpha=0.1"], out: getRun("low") });
  await train({ ...config, methods: ["r-drop:alpha=1"], seed: 1, out: getRun("high") });
  await writeJournal(getRun("standard"), "pwws", 3);
  await writeJournal(getRun("standard"), "genetic", 4);
  await writeJournal(getRun("low"), "pwws", 6);
  await writeJournal(getRun("high"), "pwws", 8);
});

/** Runs an analysis from the command line and reads what it wrote. */
async function runCommand(
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

/** Expects a complete SVG with a title and a description, without invalid numbers. */
function expectFigure(svg: string, ...words: string[]): void {
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  expect(svg).toMatch(/<title>.+<\/title>\n<desc>.+<\/desc>/);
  expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  for (const word of words) expect(svg).toContain(word);
}

describe("temper analyze", () => {
  it("distance: the logged curve ends at the model that was kept", async () => {
    const { data, svg, stdout } = await runCommand(
      ...words`distance ${getRun("standard")} ${getRun("low")} ${getRun("high")} --by alpha`,
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
      ["r-drop (alpha 0.1, seed 0)", 0.1],
      ["r-drop (alpha 1, seed 1)", 1],
    ]);
    for (const { curve, bestStep, final } of runs) {
      expect(curve[0]).toMatchObject({ step: 0, distance: { all: 0 } });
      expect(curve.length).toBeGreaterThan(3);
      expect(curve.find(({ step }) => step === bestStep)!.distance.all).toBe(final.all);
    }
    expectFigure(svg, "against alpha", "at each evaluation");
    expect(stdout).toMatch(/standard \S+% \(\S+% to \S+% by layer\), .*Each is one run/);
    expect(stdout).not.toMatch(/farther|farthest|closer/);
    expect(stdout).toContain(data.summary as string);
    expect(data).toMatchObject({ analysis: "distance", title: "Distance from the pre-trained weights" });
  });

  it("distance: three measurements are points, and only four or more make a line", async () => {
    const events = join(getRun("low"), "events.jsonl");
    const before = readFileSync(events, "utf8");
    const countLines = async (): Promise<number> => {
      const { svg } = await runCommand("distance", getRun("low"));
      return svg.match(/aria-label="line"/g)!.length;
    };
    expect(await countLines()).toBe(2);
    // With the start, two measurements are left.
    let left = 2;
    writeFileSync(
      events,
      before.replace(/,"distance":\{[^}]*\}/g, (all) => (left-- > 0 ? all : "")),
    );
    expect(await countLines()).toBe(1);
    writeFileSync(events, before);
  });

  it("tradeoff and ablation read the attacks of each run", async () => {
    const { data, svg } = await runCommand("tradeoff", join(folder, "runs"));
    expect(data.attacks).toEqual(["genetic", "pwws"]);
    // Trained on a few texts, these models collapsed: none of them is the most robust.
    expect(data.summary).toMatch(
      /^r-drop \(alpha 1, seed 1\) is degenerate: it predicts negative for 12 of 12 texts\./,
    );
    expect((data.runs as { robust: object }[]).map(({ robust }) => Object.keys(robust))).toEqual([
      ["pwws"],
      ["pwws"],
      ["genetic", "pwws"],
    ]);
    expectFigure(svg, "under genetic", "under pwws");
    const ablation = await runCommand("ablation", join(folder, "runs"), "--by", "alpha");
    expect(ablation.data.values).toMatchObject([
      { value: 0.1, mean: { pwws: 0.6 } },
      { value: 1, mean: { pwws: 0.8 } },
    ]);
    expectFigure(ablation.svg, "Effect of alpha");
  });

  it("an attack that is not finished is skipped with a warning", async () => {
    await writeJournal(getRun("low"), "genetic", 3, 6);
    const { stderr, code } = await invoke(["analyze", "tradeoff", join(folder, "runs"), "--out", join(folder, "out")]);
    expect(code).toBe(0);
    expect(stderr).toMatch(/warning: Skipped .*genetic\.jsonl: 6 of 10 examples are done\. Finish it/);
    rmSync(join(getRun("low"), "attacks", "genetic.jsonl"));
  });

  it("geometry: one panel before fine-tuning and one per run", async () => {
    const { data, svg } = await runCommand(
      ...words`geometry ${getRun("standard")} ${getRun("low")} --num-examples 12 --iterations 30`,
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
    // Points have the colors of their classes, which the legend names.
    for (const [i, label] of ["negative", "positive"].entries()) {
      expect(svg.match(new RegExp(`fill="${palette[i]}"`, "g"))!.length).toBeGreaterThan(2);
      expect(svg).toContain(`>${label}</text>`);
    }
    const number = "-?[\\d.]+ \\(-?[\\d.]+ to -?[\\d.]+\\)";
    expect(data.summary).toMatch(
      new RegExp(`^Over 12 examples, with 95% CIs: .*standard: alignment ${number}, uniformity ${number}, within`),
    );
    expect(data.summary).not.toContain("closer");
  });

  it("geometry: three examples of two classes are enough", async () => {
    const { svg } = await runCommand("geometry", getRun("standard"), "--num-examples", "3", "--iterations", "30");
    expectFigure(svg, "uniformity");
  });

  it("landscape: resumes from its points, and writes a PNG on request", async () => {
    const argv = words`landscape ${getRun("standard")} ${getRun("low")} --pretrained --points 5 --num-examples 8`;
    const { data, svg, out, stdout } = await runCommand(...argv, "--png");
    expect((data.models as { label: string }[]).map(({ label }) => label)).toEqual([
      "pre-trained",
      "standard",
      "r-drop",
    ]);
    expect(stdout).toMatch(
      /over 8 examples \(95% CI over the examples, for this plane only\): pre-trained \S+ \(\S+ to \S+\); standard/,
    );
    expect(stdout).not.toMatch(/flatte|sharpe/);
    expectFigure(svg, "alpha");
    expect([...readFileSync(join(out, "landscape.png")).subarray(1, 4)]).toEqual([...Buffer.from("PNG")]);
    // A killed process leaves some points and half a line.
    const points = readFileSync(join(out, "landscape.points.jsonl"), "utf8").split("\n");
    expect(points).toHaveLength(3 * 25 + 1);
    writeFileSync(join(out, "landscape.points.jsonl"), `${points.slice(0, 30).join("\n")}\n${points[30]!.slice(0, 9)}`);
    expect((await invoke(["analyze", ...argv, "--out", out, "--quiet"])).code).toBe(0);
    expect(JSON.parse(readFileSync(join(out, "landscape.json"), "utf8"))).toEqual(data);
  });

  it("landscape: points of other settings are kept", async () => {
    const argv = ["landscape", getRun("standard"), "--points", "5", "--num-examples", "8"];
    const { out, data } = await runCommand(...argv);
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

  testLong("landscape: Ctrl-C prints how to resume", async () => {
    const out = join(folder, "stopped");
    const argv = words`analyze landscape ${getRun("standard")} --points 501 --num-examples 8 --device cpu --out ${out}`;
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
    expect(stderr).toContain(
      `Stopped the analysis landscape. Every finished point is kept.\nContinue with: temper ${argv.join(" ")}\n`,
    );
  });

  it("interpolation: alpha 0 and 1 are on the grid", async () => {
    const { data, svg } = await runCommand(
      ...words`interpolation ${getRun("standard")} ${getRun("low")} --points 5 --num-examples 12`,
    );
    expect((data.points as { alpha: number }[]).map(({ alpha }) => alpha)).toEqual([-0.5, 0, 0.5, 1, 1.5]);
    expectFigure(svg, "Between standard and r-drop");
    expect(data.summary).toMatch(/The lowest accuracy of 5 points is .* \(95% CI .*, 12 examples\)/);
  });

  it.each([
    ["tokenization", "config.yaml", /^tokenization: .*$/m, "tokenization: word", "subword and word"],
    ["maxLength", "config.yaml", /^maxLength: .*$/m, "maxLength: 7", "\\d+ and 7"],
    ["tokenizer", "environment.json", /"tokenizer": "\w+"/, '"tokenizer": "0abc"', "\\w+ and 0abc"],
    ["activation", "model/config.json", /^\{/, '{ "hidden_act": "relu",', "gelu and relu"],
    ["labels", "model/config.json", /("id2label": \{\s*"0": )"\w+"/, '$1"other"', "\\w+, \\w+ and other, \\w+"],
  ])("interpolation: rejects models with another %s", async (key, file, pattern, replacement, values) => {
    const copy = join(folder, `other-${key}`);
    cpSync(getRun("low"), copy, { recursive: true });
    const path = join(copy, file);
    const before = readFileSync(path, "utf8");
    writeFileSync(path, before.replace(pattern, replacement));
    expect(readFileSync(path, "utf8")).not.toBe(before);
    const { code, stderr } = await invoke(["analyze", "interpolation", getRun("standard"), copy]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(`differ in ${key} \\(${values}\\), so a mixture`) as string,
    });
    expect(existsSync(join(copy, "analysis", "interpolation.json"))).toBe(false);
  });

  it("a figure of earlier data does not stay next to newer data", async () => {
    const out = join(folder, "figures");
    const argv = ["analyze", "tradeoff", join(folder, "runs"), "--out", out, "--quiet"];
    expect((await invoke([...argv, "--png"])).code).toBe(0);
    expect(existsSync(join(out, "tradeoff.png"))).toBe(true);
    expect((await invoke(argv)).code).toBe(0);
    expect([existsSync(join(out, "tradeoff.png")), existsSync(join(out, "tradeoff.svg"))]).toEqual([false, true]);
  });

  it("consistency: reads the events of a run with two passes", async () => {
    const { data, svg } = await runCommand("consistency", getRun("low"), "--steps", "2,4");
    expect((data.first as { steps: number }[]).map(({ steps }) => steps)).toEqual([2, 4]);
    expectFigure(svg, "differ");
  });

  it("writes into the folder of the first run by default, and prints JSON", async () => {
    const { code, stdout } = await invoke(["analyze", "tradeoff", join(folder, "runs"), "--json"]);
    expect(code).toBe(0);
    const printed = JSON.parse(stdout) as { analysis: string; files: { svg: string } };
    expect(printed).toMatchObject({
      analysis: "tradeoff",
      attacks: ["genetic", "pwws"],
      files: { svg: join(getRun("high"), "analysis", "tradeoff.svg"), png: null },
    });
    expect(existsSync(printed.files.svg)).toBe(true);
  });
});

describe("errors", () => {
  it.each([
    [["distance", "nowhere"], /nowhere/],
    [["tradeoff", "RUN/high-without"], /high-without/],
    [["ablation", "RUN/standard", "--by", "alpha"], /--by alpha: expected runs with at least two values, found no run/],
    [["ablation", "RUN/standard"], /required option '--by <value>' not specified/],
    [["landscape", "RUN/standard", "--points", "4"], /landscape: points: expected an odd integer of at least 3/],
    [["landscape", "RUN/standard", "--range", "0"], /landscape: range: expected a number above 0, received 0/],
    [["geometry", "RUN/standard", "--num-examples", "2"], /numExamples: expected an integer of at least 3/],
    [["geometry", "RUN/standard", "--split", "dev"], /'dev' is invalid.*train, validation, test/],
    [["interpolation", "RUN/standard", "RUN/standard"], /Expected 2 runs, found 1/],
    [["interpolation", "RUN/standard", "RUN/low", "--points", "2"], /--points 2: no point is between the two models/],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--from", "2", "--to", "3"],
      /no point is between the two models.* a range that contains 0 to 1/,
    ],
    [
      ["interpolation", "RUN/standard", "RUN/low", "--from", "2", "--to", "1"],
      /--from 2 --to 1: expected --from to be smaller than --to/,
    ],
    [["consistency", "RUN/standard"], /standard has one dropout pass per step.* Choose a run of rose or r-drop/],
    [["consistency", "RUN"], /Expected one run, found 3/],
  ])("temper analyze %j", async (argv, message) => {
    const { code, stdout, stderr } = await invoke([
      "analyze",
      ...argv.map((word) => word.replace("RUN", join(folder, "runs"))),
    ]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/ at .*\.ts:/);
  });

  it.each([
    [{ analysis: "geometry", numExample: 8 }, /geometry: unknown key numExample .*numExamples/],
    [{ analysis: "distanse" }, /Unknown analysis "distanse".*distance/],
  ])("analyze(%j)", async (request, message) => {
    await expect(analyze({ runs: [getRun("standard")], ...request } as AnalysisRequest)).rejects.toThrow(message);
  });
});

describe("analyze", () => {
  it("returns typed data, reports progress and stops when the signal is aborted", async () => {
    const stop = new AbortController();
    const stages: string[] = [];
    const request = { analysis: "landscape" as const, runs: [getRun("standard")], points: 3, numExamples: 8 };
    const options = { device: "cpu", threads: 1, out: join(folder, "library") } as const;
    const { data, files } = await analyze(
      { ...request, ...options },
      listen({ progress: ({ stage, done, total }) => stages.push(`${stage} ${done}/${total}`) }),
    );
    expect(data.models[0]!.losses).toHaveLength(3);
    expect(files.svg).toBe(join(folder, "library", "landscape.svg"));
    expect(stages).toHaveLength(9);
    expect(stages.at(-1)).toBe("landscape 9/9");
    stop.abort();
    await expect(analyze({ ...request, ...options, seed: 1 }, { signal: stop.signal })).rejects.toThrow(/Stopped/);
    const points = readFileSync(join(folder, "library", "landscape.points.jsonl"), "utf8")
      .trim()
      .split("\n");
    expect(points).toHaveLength(10);
  });
});
