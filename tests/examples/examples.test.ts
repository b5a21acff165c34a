import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BatchContext, tensor } from "temper-nlp";
import { beforeAll, expect, test, vi } from "vitest";
import { attackRun } from "../../examples/attack.js";
import { classify, fineTuneOnTable } from "../../examples/fine-tune.js";
import { confidencePenalty, trainWithPenalty } from "../../examples/own-method.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const [table, run] = [join(folder, "reviews.tsv"), join(folder, "run")];
let model: string;

beforeAll(async () => {
  model = await writeTinyBert(join(folder, "tiny-bert"));
  writeReviews(table);
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});

test("fine-tune: a table becomes a run, the run classifies", async () => {
  const results = await fineTuneOnTable(model, table, run);
  expect(results).toMatchObject({ methods: [{ name: "r-drop" }], report: { accuracy: expect.any(Number) } });
  expect(existsSync(join(run, "model/model.safetensors"))).toBe(true);
  const labels = await classify(run, ["a good film", "the plot was dull"]);
  expect(labels.every((label) => ["positive", "negative"].includes(label))).toBe(true);
  expect(labels).toHaveLength(2);
});

test("attack: a run's model meets its own task", async () => {
  const substitutions = join(folder, "substitutes.json");
  writeFileSync(substitutions, JSON.stringify({ good: ["fine", "warm"], bad: ["cold"], film: ["scene"], was: ["of"] }));
  const report = await attackRun(run, substitutions, join(folder, "attacks"), 8);
  expect(report.examples).toBe(8);
  expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThanOrEqual(report.clean);
  expect(existsSync(join(folder, "attacks/pwws.jsonl"))).toBe(true);
});

test("a method of one's own adds its term, and trains", async () => {
  const step = { pass: () => ({ logits: tensor(new Float32Array([0, 0, 3, 3]), [2, 2]) }) } as unknown as BatchContext;
  const losses = confidencePenalty.create({ beta: 2 }).losses!(step, () => new Map());
  expect(losses.get("confidence")!.item()).toBeCloseTo(-2 * Math.log(2), 5);
  const flags = { model, data: table, textColumn: ["text"], labelColumn: "label", "train.epochs": 1, "train.learningRate": 0.01 };
  expect(await trainWithPenalty(flags, 0.1)).toBeGreaterThan(0.3);
});

test("the method of one's own fits in 30 lines", () => {
  const source = readFileSync("examples/own-method.ts", "utf8");
  const start = source.indexOf("export const confidencePenalty");
  expect(source.slice(start, source.indexOf("\n});", start)).split("\n").length).toBeLessThan(30);
});
