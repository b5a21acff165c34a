#!/usr/bin/env node
// Measures guards for docs/reports/guards.md.
//   node tools/guards/measure.mjs DATA MODEL [--windows 32] [--fpr 0.01] [--examples 40] [--queries 1000,…] [--out FOLDER]
// DATA is the folder data/ of fetch.py, and MODEL a folder that temper reads. The threshold is that of the conformal
// quantile on calibration.txt. Each attack has the guard with its windows and its threshold in the loop.
import { readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    windows: { type: "string" },
    fpr: { type: "string", default: "0.01" },
    examples: { type: "string", default: "40" },
    queries: { type: "string", default: "1000" },
    texts: { type: "string" },
    full: { type: "boolean", default: false },
    padding: { type: "string", default: "100" },
    validity: { type: "string", default: "looks-same,reads-same" },
    out: { type: "string", default: "build/guards" },
    root: { type: "string", default: resolve(import.meta.dirname, "../..") },
  },
});
const [data, model] = positionals;
if (!data || !model) throw new Error("expected the folder of the data and a model");
const load = (path) => import(join(values.root, "dist", path));
const { loadGuard } = await load("guard/index.js");
const { attack } = await load("actions/attack/attack.js");
const { guard } = await load("attacks/recipes/guard.js");
const { calibrateThreshold } = await load("proofs/certificates/index.js");
const { computeOperatingPoints } = await load("evaluation/operating-points.js");
const { wilsonInterval } = await load("evaluation/statistics.js");
const { loadTask } = await load("tasks/index.js");

const windows = values.windows ? Number(values.windows) : null;
const positiveLabel = "attack";
const classifier = await loadGuard(model, {
  windows,
  positiveLabel,
  threshold: 0.5,
  quantized: !values.full,
  threads: 2,
});
/** With --texts N: N benign texts for the threshold, N for the rate, and N / 2 attacks and trigger texts. */
const limit = Number(values.texts ?? Number.POSITIVE_INFINITY);
const readLines = (name, count) => readFileSync(join(data, name), "utf8").trim().split("\n").slice(0, count);
const score = async (texts) => {
  const found = [];
  for (let start = 0; start < texts.length; start += 64)
    for (const { score } of await classifier.checkAll(texts.slice(start, start + 64))) found.push(score);
  return found;
};
const task = await loadTask({ data, textColumn: ["text"], labelColumn: "label" });
const isAttack = (example) => task.labels[example.label] === positiveLabel;
const all = await task.load("test");
const test = [...all.filter(isAttack).slice(0, limit / 2), ...all.filter((each) => !isAttack(each)).slice(0, limit)];
const threshold = calibrateThreshold(await score(readLines("calibration.txt", limit)), Number(values.fpr));
const scores = await score(test.map(({ texts }) => texts[0]));
const points = computeOperatingPoints(scores.map((each, i) => ({ score: each, isPositive: isAttack(test[i]) })));
const rate = (found, all) => ({ rate: found / all, texts: all, interval: wilsonInterval(found, all) });
const count = (wanted) => {
  const own = scores.filter((_, i) => isAttack(test[i]) === wanted);
  return rate(own.filter((each) => each > threshold).length, own.length);
};
const triggers = await score(readLines("trigger-words.txt", limit / 2));
const certified = scores.filter(
  (each, i) => isAttack(test[i]) && each > threshold + (values.full ? 1e-4 : 0.05),
).length;
const times = [];
// A text that was checked before is remembered, so each has another last word.
for (const { texts } of test.slice(0, 50)) {
  const start = performance.now();
  await classifier.check(`${texts[0]} ${times.length}`);
  times.push(performance.now() - start);
}
const result = {
  ...{ model: model.split("/").at(-1), windows, threshold, recall: count(true), falsePositives: count(false) },
  ...{ auc: points.auc, aucInterval: points.aucInterval, pointAtFpr: points.pointAtFpr },
  overDefense: rate(triggers.filter((each) => each > threshold).length, triggers.length),
  certifiedRecall: windows === null ? null : rate(certified, count(true).texts),
  medianMilliseconds: times.sort((a, b) => a - b)[25],
  attacks: {},
};
/** Moves the threshold to 1/2, because an attack stops when the other class has the larger probability. */
const move = (p) => (p > threshold ? 0.5 + (0.5 * (p - threshold)) / (1 - threshold) : (0.5 * p) / threshold);
const benign = task.labels.indexOf("benign");
const predict = async (texts) =>
  (await score(texts.map(String))).map((each) =>
    benign === 0 ? [1 - move(each), move(each)] : [move(each), 1 - move(each)],
  );
for (const validity of Number(values.queries) > 0 ? values.validity.split(",") : []) {
  const own = join(values.out, `${result.model}-${windows ?? "complete"}-${validity}`);
  rmSync(own, { recursive: true, force: true });
  const report = await attack({
    ...{
      model: predict,
      out: own,
      seed: 0,
      queryBudget: Number(values.queries),
      data: { path: data, textColumn: ["text"], labelColumn: "label" },
    },
    ...{ numExamples: Number(values.examples), attackedLabel: positiveLabel },
    attacks: [guard({ benignLabel: "benign", validity, paddingWords: Number(values.padding) })],
  });
  const { curve, checks, queries } = report.attacks.guard;
  result.attacks[validity] = { curve, checks, queries };
}
classifier.close();
console.log(JSON.stringify(result));
