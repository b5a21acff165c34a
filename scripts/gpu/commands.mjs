// Every verb that runs a model, on a GPU in float32 beside a CPU: what they print as JSON must agree.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Rng } from "../../dist/tensor/index.js";

const run = promisify(execFile);
const program = resolve(import.meta.dirname, "../../dist/cli/main.js");
const moods = { positive: ["good", "warm", "fine", "bright"], negative: ["bad", "dull", "poor", "flat"] };

/** Made-up reviews whose mood hangs on one word, as a table with columns text and label. */
export function writeReviews(file, count) {
  const rng = new Rng("reviews");
  const pick = (words) => words[rng.integer(words.length)];
  const rows = Array.from({ length: count }, (_, i) => {
    const label = i % 2 ? "positive" : "negative";
    const words = Array.from({ length: 4 + rng.integer(20) }, () =>
      pick(["the", "film", "plot", "was", "and", "scene", "of", "it"]),
    );
    return `${[...words, pick(moods[label])].join(" ")}\t${label}`;
  });
  writeFileSync(file, `text\tlabel\n${rows.join("\n")}\n`);
}

/** Numbers of two JSON values that lie further apart than the tolerance, by their paths; what a clock or a folder says is left out. */
function differences(a, b, tolerance, path = "") {
  if (/second|device|journal|folder|files|batches/i.test(path.split(".").at(-1) ?? "")) return [];
  if (typeof a === "number" && typeof b === "number")
    return Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(a)) ? [] : [`${path}: ${a} and ${b}`];
  if (a === null || typeof a !== "object" || b === null || typeof b !== "object")
    return a === b ? [] : [`${path}: ${a} and ${b}`];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) =>
    differences(a[key], b[key], tolerance, `${path}.${key}`),
  );
}

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  }
};

export async function verbs({ device, model, folder, report }) {
  const temper = async (...args) =>
    (await run(process.execPath, [program, ...args, "--quiet"], { maxBuffer: 1 << 28 })).stdout;
  const at = (name) => join(folder, name);
  writeReviews(at("reviews.tsv"), 400);
  writeFileSync(at("texts.txt"), "the film was good and warm\nthe plot of it was dull\nscene\n");
  const substitutes = (words) =>
    words.map((word) => [word, ["so", "long", ...words.filter((other) => other !== word)]]);
  writeFileSync(at("table.json"), JSON.stringify(Object.fromEntries(Object.values(moods).flatMap(substitutes))));
  const data = ["--data", at("reviews.tsv"), "--text-column", "text", "--label-column", "label"];
  const reading = ["--tokenization", "word", "--max-length", "32", "--substitutions", at("table.json")];

  const methods =
    "standard r-drop rose child-tuning child-tuning:variant=F smart freelb ascc ascc+rift ascc+ptwd ascc+mixout";
  for (const name of methods.split(" ")) {
    const chosen = name === "standard" ? [] : name.split("+").flatMap((method) => ["--method", method]);
    const place = ["--epochs", "1", "--device", device, "--out", at(name.replace(/\W/g, "-"))];
    const failure = await temper("train", "--model", model, ...data, ...reading, ...chosen, ...place).then(
      () => null,
      (error) => error.stderr ?? error.message,
    );
    report("a run from the command line", failure === null, name, failure ?? "");
  }

  const [first, second] = [at("standard"), at("rose")];
  const exact = ["--precision", "fp32"];
  const attacks = ["pwws", "genetic", "greedy", "random", "ascc"];
  /** A verb's arguments; what it writes goes into OUT. */
  const cases = new Map([
    ["evaluate", ["evaluate", first, ...data, ...exact]],
    ["predict", ["predict", first, at("texts.txt"), ...exact]],
    ["encode", ["encode", first, at("texts.txt")]],
    ...attacks.map((name) => [
      name,
      ["attack", first, ...data, "--attack", name, "--num-examples", "40", "--no-cache", "--out", "OUT", ...exact],
    ]),
    ["distance", ["analyze", "distance", first, second, "--out", "OUT"]],
    // One step: in twenty, t-SNE makes a difference of 1e-7 as large as the picture.
    [
      "geometry",
      ["analyze", "geometry", first, "--num-examples", "60", "--perplexity", "5", "--iterations", "1", "--out", "OUT"],
    ],
    ["landscape", ["analyze", "landscape", first, "--points", "3", "--num-examples", "32", "--out", "OUT"]],
    [
      "interpolation",
      ["analyze", "interpolation", first, second, "--points", "3", "--num-examples", "32", "--out", "OUT"],
    ],
    // A CPU's journal, replayed.
    ["verify", ["verify", join(at("pwws-beside"), "pwws.jsonl"), "--model", first, ...exact]],
  ]);
  for (const [name, args] of cases) {
    const answer = async (place, out) =>
      parse(
        await temper(...args.map((arg) => (arg === "OUT" ? at(`${name}-${out}`) : arg)), "--device", place, "--json"),
      );
    const title = `${name} on a GPU = on a CPU`;
    try {
      const found = differences(await answer(device, "here"), await answer("cpu", "beside"), 1e-3);
      report(title, found.length === 0, ...found.slice(0, 3));
    } catch (error) {
      report(title, false, error.stderr ?? error.message);
    }
  }
}
