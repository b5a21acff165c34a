#!/usr/bin/env node
// Appended benign words against a guard: without windows they hide texts, with windows they cannot.
//   node tools/check-guard.mjs RUN --benign FILE.jsonl [--windows 16,32,64] [--fpr 0.01] [--attempts 10000] [--examples N]
//     [--max-words N] [--device cpu] [--json]
// RUN is a model with two labels, and FILE has benign texts that it has not seen. The number of words per window is chosen on the
// validation split. An attempt appends or prepends 1 to 200 words of benign texts to a test text that the guard detects.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const root = resolve(import.meta.dirname, "..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    benign: { type: "string" },
    windows: { type: "string", default: "16,32,64" },
    fpr: { type: "string", default: "0.01" },
    attempts: { type: "string", default: "10000" },
    examples: { type: "string" },
    "max-words": { type: "string" },
    device: { type: "string", default: "cpu" },
    json: { type: "boolean", default: false },
  },
});
const [run] = positionals;
if (!run || !values.benign) throw new Error("expected a run folder and --benign FILE.jsonl");
const load = (path) => import(join(root, "dist", path));
const { loadClassifier } = await load("actions/predict/text-classifier.js");
const { loadConfiguredTask } = await load("actions/load/load-task.js");
const { RunFolder } = await load("runs/run-folder.js");
const { calibrateThreshold, createGuardModel, getTieMargin, summarizeGuard } =
  await load("proofs/certificates/index.js");
const { findWords } = await load("text/find-words.js");
const { Rng } = await load("base/rng.js");

const classifier = await loadClassifier(run, { device: values.device, precision: "fp32" });
const folder = await RunFolder.open(run);
const task = await loadConfiguredTask(folder.config, {});
const limit = values.examples ? Number(values.examples) : undefined;
/** Texts are cut to --max-words words, so that windows take less time. */
const shorten = (text) => {
  const last = findWords(text)[Number(values["max-words"] ?? Number.POSITIVE_INFINITY) - 1];
  return last ? text.slice(0, last.end) : text;
};
const unseen = readFileSync(values.benign, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line).text);
const isBenign = new Set(unseen);
const sample = async (split) =>
  new Rng(0)
    .fork("guard", split)
    .shuffle((await task.load(split)).filter(({ texts }) => !isBenign.has(texts[0])))
    .slice(0, limit)
    .map((example) => ({ ...example, texts: example.texts.map(shorten) }));
const benign = unseen.slice(0, limit).map(shorten);
const fpr = Number(values.fpr);
const positiveLabel = 1;

/** Parts of texts are scored once: an appended word adds few windows. */
const known = new Map();
async function score(texts, windows) {
  const model = createGuardModel({ windows, positiveLabel, threshold: 0.5 });
  const scores = [];
  for (let start = 0; start < texts.length; start += 128) {
    const parts = texts.slice(start, start + 128).map((text) => model.split([text]).map(([part]) => part));
    const missing = [...new Set(parts.flat())].filter((part) => !known.has(part));
    const rows = missing.length === 0 ? [] : await classifier.score(missing.map((part) => [part]));
    for (const [i, part] of missing.entries()) known.set(part, rows[i]);
    for (const own of parts) scores.push(model.answer(own.map((part) => known.get(part))).probabilities[positiveLabel]);
    if (known.size > 3_000_000) known.clear();
  }
  return scores;
}

const getTexts = (examples) => examples.map(({ texts }) => texts[0]);
async function evaluateGuard(examples, windows, threshold) {
  const scores = await score(getTexts(examples), windows);
  const margin = getTieMargin("fp32");
  return {
    scores,
    ...summarizeGuard(
      scores.map((each, i) => ({
        score: each,
        isPositive: examples[i].label === positiveLabel,
        isCertified: windows === null ? null : each > threshold + margin,
      })),
      threshold,
    ),
  };
}

/** False-positive rates of 1,000 random splits of all benign texts into texts for the threshold and texts for the rate. */
function repeatSplits(calibration, tested) {
  const rng = new Rng(0).fork("splits");
  const rates = Array.from({ length: 1000 }, () => {
    const all = rng.shuffle([...calibration, ...tested]);
    const threshold = calibrateThreshold(all.slice(0, calibration.length), fpr);
    return all.slice(calibration.length).filter((each) => each > threshold).length / tested.length;
  });
  rates.sort((a, b) => a - b);
  return { mean: rates.reduce((a, b) => a + b) / rates.length, median: rates[500], low: rates[25], high: rates[974] };
}

const [validation, test] = [await sample("validation"), await sample("test")];
const guards = [];
for (const windows of [null, ...values.windows.split(",").map(Number)]) {
  const threshold = calibrateThreshold(await score(benign, windows), fpr);
  const { scores: _, ...chosen } = await evaluateGuard(validation, windows, threshold);
  guards.push({ windows, threshold, validationRecall: chosen.recall });
}
const best = guards.slice(1).reduce((a, b) => (b.validationRecall > a.validationRecall ? b : a));
const results = [];
for (const { windows, threshold } of [guards[0], best]) {
  const { scores, ...summary } = await evaluateGuard(test, windows, threshold);
  const benignScores = await score(benign, windows);
  const detected = test.filter(({ label }, i) => label === positiveLabel && scores[i] > threshold);
  const rng = new Rng(0).fork("attempts", String(windows));
  const vocabulary = benign
    .map((text) => findWords(text).map(({ start, end }) => text.slice(start, end)))
    .filter(({ length }) => length > 0);
  const draw = () => {
    const words = vocabulary[rng.integer(vocabulary.length)];
    const start = rng.integer(words.length);
    return words.slice(start, start + 1 + rng.integer(200)).join(" ");
  };
  const attempts = Array.from({ length: Number(values.attempts) }, (_, i) => {
    const index = i % Math.max(1, detected.length);
    const text = detected[index]?.texts[0] ?? "";
    const kind = rng.integer(3);
    return {
      index,
      text: kind === 0 ? `${text} ${draw()}` : kind === 1 ? `${draw()} ${text}` : `${draw()} ${text} ${draw()}`,
    };
  });
  const attacked = await score(
    attempts.map(({ text }) => text),
    windows,
  );
  const missed = attempts.filter((_, i) => !(attacked[i] > threshold));
  results.push({
    windows,
    ...summary,
    splits: repeatSplits(
      benignScores,
      scores.filter((_, i) => test[i].label !== positiveLabel),
    ),
    detected: detected.length,
    attempts: attempts.length,
    hiddenAttempts: missed.length,
    hiddenTexts: new Set(missed.map(({ index }) => index)).size,
  });
}
classifier.close();
const report = { run: run.split("/").at(-1), fpr, benign: benign.length, guards, results };
const percent = (value) => (value === null || value === undefined ? "-" : `${(100 * value).toFixed(1)}%`);
if (values.json) console.log(JSON.stringify(report));
else
  for (const each of results)
    console.log(
      `windows ${each.windows ?? "none"}: recall ${percent(each.recall)}, certified recall ${percent(each.certifiedRecall)}, false positives ` +
        `${percent(each.falsePositiveRate)} (contract ${percent(fpr)}), benign words hide ${each.hiddenTexts} of ${each.detected} detected texts ` +
        `(${each.hiddenAttempts} of ${each.attempts} attempts)`,
    );
