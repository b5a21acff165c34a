import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { MetricComparison } from "../../src/evaluation/compare.js";
import { createSweepPlan, getRunFolder, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { writeRun } from "../report/run-folder.js";
import { expectClose, float64 } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const folder = temporaryFolder();
let trained: TinyVictim;
let untrained: TinyVictim;

async function attack(made: TinyVictim, out: string): Promise<void> {
  const data = ["--data", trained.data, "--text-column", "text", "--label-column", "label", "--num-examples", "60"];
  const flags = "--attack greedy --attack random --device cpu --threads 1 --quiet".split(" ");
  const { code, stderr } = await invoke(["attack", made.run, ...data, "--out", out, ...flags]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
}

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  trained = await tinyVictim(join(folder, "trained"));
  untrained = await tinyVictim(join(folder, "untrained"), { maxTrainSamples: 2 });
  await attack(trained, join(trained.run, "attacks"));
  await attack(untrained, join(untrained.run, "attacks"));
});
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

const compare = async (...argv: string[]): Promise<MetricComparison[]> => {
  const { code, stdout, stderr } = await invoke(["compare", ...argv, "--json"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return (JSON.parse(stdout) as { comparisons: MetricComparison[] }).comparisons;
};

test("a degenerate model is neither better nor worse, and the sentence says why", async () => {
  const { code, stdout } = await invoke(["compare", join(trained.run, "attacks"), join(untrained.run, "attacks")]);
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^accuracy before the attack: .*: [\d.]+% vs\. [\d.]+% on 60 examples, [\d.]+ points \(95% CI [\d.]+ to [\d.]+; Holm-corrected p [^)]+\)\.$/m,
  );
  // The reason is said once, after the sentences that it belongs to.
  expect(
    stdout.match(/^.*untrained\/run\/attacks is degenerate: .*Draw no conclusion from the difference\.$/gm),
  ).toHaveLength(1);
  expect(stdout).toMatch(/^accuracy under greedy: /m);
  expect(stdout).not.toContain("is better than");
});

test("runs are compared on the test split and on their journals; the order only changes the sign", async () => {
  const forth = await compare(trained.run, untrained.run);
  const back = await compare(untrained.run, trained.run);
  expect(forth.map(({ metric }) => metric)).toEqual(["accuracy", "greedy", "random", "worst-case"]);
  expect(forth[0]).toMatchObject({ examples: 12, seeds: 1, p: { mcNemar: expect.any(Number), tTest: null } });
  for (const [i, { difference, better, p }] of forth.entries()) {
    expectClose(back[i]!.difference, -difference, float64);
    expectClose(back[i]!.p.corrected, p.corrected, float64);
    expect([better, back[i]!.better]).not.toEqual(["first", "first"]);
  }
});

test("a run is compared with a folder of journals on their attacks, with a warning about the test split", async () => {
  const { code, stdout, stderr } = await invoke(["compare", trained.run, join(untrained.run, "attacks"), "--json"]);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: `warning: Skipped accuracy: only ${trained.run} has results on the test split.\n`,
  });
  const { comparisons } = JSON.parse(stdout) as { comparisons: MetricComparison[] };
  expect(comparisons.map(({ metric }) => metric)).toEqual(["clean", "greedy", "random", "worst-case"]);
});

test("a model does not differ from itself, and the power of the test is stated", async () => {
  const [clean] = await compare(join(trained.run, "attacks"), join(trained.run, "attacks"));
  expect(clean).toMatchObject({ difference: 0, better: null, p: { corrected: 1 } });
  expect(clean!.verdict).toMatch(
    /is not statistically significant: .*With 60 examples, differences below [\d.]+ points cannot be detected/,
  );
});

test("folders of several runs are compared over seeds and examples", async () => {
  for (const [side, made] of Object.entries({ a: trained, b: untrained }))
    for (const seed of ["seed1", "seed2"])
      cpSync(join(made.run, "attacks"), join(folder, side, seed), { recursive: true });
  const [clean] = await compare(join(folder, "a"), join(folder, "b"));
  expect(clean).toMatchObject({
    seeds: 2,
    examples: 60,
    better: null,
    warning: expect.stringContaining("degenerate"),
    p: { mcNemar: null, tTest: expect.any(Number) },
  });
  const { code, stderr } = await invoke(["compare", join(folder, "a"), trained.run]);
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(/has 2 run\(s\), .* has 1/) });
});

test("three runs: each of the others is compared with the first", async () => {
  const all = await compare(trained.run, untrained.run, trained.run);
  expect(all.map(({ metric, secondName }) => [metric, secondName])).toEqual(
    [untrained.run, trained.run].flatMap((other) =>
      ["accuracy", "greedy", "random", "worst-case"].map((metric) => [metric, other]),
    ),
  );
  expect(all.slice(4).map(({ difference }) => difference)).toEqual([0, 0, 0, 0]);
  const { stdout } = await invoke(["compare", trained.run, untrained.run, trained.run]);
  expect(stdout).toMatch(/^metric +examples +seeds +\S+ +compared with +points +95% CI +p \(Holm\)$/m);
  const { code, stderr } = await invoke(["compare", trained.run]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("two or more runs") as string });
});

test("one folder of runs is compared by method; symbolic links to runs count as runs", async () => {
  const linked = join(folder, "linked");
  mkdirSync(linked);
  for (const made of [trained, untrained])
    symlinkSync(made.run, join(linked, made === trained ? "trained" : "untrained"));
  const all = await compare(linked);
  expect(all.map(({ metric }) => metric)).toEqual(["accuracy", "greedy", "random", "worst-case"]);
  // A task with one method has nothing to compare.
  await writeRun(join(linked, "other"), { task: "other", seed: 0, accuracy: 0.8 });
  expect(await compare(linked)).toEqual(all);
  const wrong = await invoke(["compare", linked, "--column", "sst2"]);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/--column sst2: .* have the tasks .*other/) });
  rmSync(join(linked, "other"), { recursive: true });
  const { code, stderr } = await invoke(["table", linked]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("temper compare") as string });
});

test("a sweep is compared by its rows, column by column, with the baseline first", async () => {
  const [file, out] = [join(folder, "rows.yaml"), join(folder, "rows")];
  writeFileSync(
    file,
    "model: m\ntask: spam\nbaseline: standard\nseeds: 3\ncolumns: { short: null, long: { maxLength: 64 } }\n" +
      "rows: { rose: { methods: rose }, standard: null }\n",
  );
  const sweep = await createSweepPlan(await readSweep({ file }));
  mkdirSync(out);
  await writeSweepPlan(out, sweep);
  for (const { row, points } of sweep.plan.cells)
    await writeRun(getRunFolder(out, points[0]!.runs[0]!), { seed: 3, accuracy: row === "rose" ? 0.9 : 0.8 });

  const { code, stdout } = await invoke(["compare", out, "--json"]);
  expect(code).toBe(0);
  const reports = JSON.parse(stdout) as { title: string; runs: string[]; comparisons: MetricComparison[] }[];
  expect(reports.map(({ title, runs }) => [title, runs])).toEqual([
    ["short", ["standard", "rose"]],
    ["long", ["standard", "rose"]],
  ]);
  const [short] = await compare(out, "--column", "short");
  expect(short).toMatchObject({ metric: "accuracy", seeds: 1, first: 0.8, second: 0.9, better: "second" });

  // With other runs, a sweep of several columns needs to know which one.
  const link = join(folder, "rows-linked");
  symlinkSync(out, link);
  const other = await writeRun(join(folder, "other"), { accuracy: 0.7 });
  const ambiguous = await invoke(["compare", link, other]);
  expect(ambiguous).toMatchObject({ code: 2, stderr: expect.stringContaining("Name one with --column.") });
  const wrong = await invoke(["compare", link, "--column", "wide"]);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("has the columns short, long") });
});

test("rejects what cannot be compared", async () => {
  const expectError = async (first: string, second: string, message: RegExp): Promise<void> => {
    const { code, stderr } = await invoke(["compare", first, second]);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  };
  await expectError(join(folder, "nowhere"), trained.run, /there is no such file or folder/);
  await expectError(join(folder, "cache"), trained.run, /expected a finished run, a folder of attack journals/);
});
