import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { train as trainRun } from "../../../src/actions/train/train.js";
import type { RunConfig } from "../../../src/settings/config.js";
import { chooseExtent } from "../../extent.js";
import { temporaryFolder } from "../../temporary.js";
import { reviews, tinyRun } from "../../tiny-run.js";

const folder = temporaryFolder();

/** 600 reviews, of which 30 are negative. The same mixture is held out for the test. */
const data = join(folder, "rare.tsv");
const rows = reviews(1200, "rare");
const [common, rare] = ["positive", "negative"].map((label) => rows.filter((row) => row.label === label));
writeFileSync(
  data,
  `text\tlabel\n${[...common!.slice(0, 570), ...rare!.slice(0, 30)].map(({ text, label }) => `${text}\t${label}`).join("\n")}\n`,
);

async function train(name: string, seed: number, settings: Partial<RunConfig["train"]>) {
  const config = await tinyRun(join(folder, `${name}-${seed}`), {
    ...{ data, seed, maxValidationSamples: null },
    train: { epochs: 4, batchSize: 16, dropout: false, metricForBestModel: "balanced-accuracy", ...settings },
  });
  const run = await trainRun({ ...config, out: join(folder, `${name}-${seed}`, "run") });
  const { test: result, steps } = (await run.results())!;
  return { steps, recall: result.metrics["recall:negative"]!, balanced: result.metrics["balanced-accuracy"]! };
}

test("class-balanced batches and class weights find more of a rare class", async () => {
  const isLong = process.env.TEMPER_LONG === "1";
  const seeds = Array.from({ length: chooseExtent(1, 5) }, (_, seed) => seed);
  const measure = async (name: string, settings: Partial<RunConfig["train"]>) => {
    const runs = await Promise.all(seeds.map((seed) => train(name, seed, settings)));
    const average = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    return {
      steps: runs[0]!.steps,
      recall: average(runs.map(({ recall }) => recall)),
      balanced: average(runs.map(({ balanced }) => balanced)),
    };
  };
  const plain = await measure("plain", {});
  const sampled = await measure("sampled", { batchSampler: "class-balanced" });
  expect(sampled.recall).toBeGreaterThan(plain.recall);
  expect(sampled.balanced).toBeGreaterThan(plain.balanced);
  expect(sampled.steps).toBeGreaterThanOrEqual(plain.steps);
  // Weights need more seeds to show an effect: each seed learns the rare class or does not.
  if (!isLong) return;
  const weighted = await measure("weighted", { classWeights: "balanced" });
  expect(weighted.recall).toBeGreaterThan(plain.recall);
  expect(weighted.balanced).toBeGreaterThan(plain.balanced);
});
