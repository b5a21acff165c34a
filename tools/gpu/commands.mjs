// Every command that runs a model, on a GPU in float32 and on a CPU: their JSON output must agree.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Rng } from "../../dist/tensor/index.js";

const run = promisify(execFile);
const program = resolve(import.meta.dirname, "../../dist/cli/main.js");
const moods = { positive: ["good", "warm", "fine", "bright"], negative: ["bad", "dull", "poor", "flat"] };

/** Writes synthetic reviews whose label depends on one word, with the columns text and label. */
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

/** Lists the numbers of two JSON values that differ by more than the tolerance, by path. Times, folders and requests are ignored. */
function listDifferences(a, b, tolerance, path = "") {
  if (/second|device|journal|folder|files|batches|^request$/i.test(path.split(".").at(-1) ?? "")) return [];
  if (typeof a === "number" && typeof b === "number")
    return Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(a)) ? [] : [`${path}: ${a} and ${b}`];
  if (a === null || typeof a !== "object" || b === null || typeof b !== "object")
    return a === b ? [] : [`${path}: ${a} and ${b}`];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) =>
    listDifferences(a[key], b[key], tolerance, `${path}.${key}`),
  );
}

const parseOutput = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  }
};

export async function checkCommands({ device, model, folder, report }) {
  const temper = async (...args) =>
    (await run(process.execPath, [program, ...args, "--quiet"], { maxBuffer: 1 << 28 })).stdout;
  const at = (name) => join(folder, name);
  writeReviews(at("reviews.tsv"), 400);
  writeFileSync(at("texts.txt"), "the film was good and warm\nthe plot of it was dull\nscene\n");
  const listSubstitutes = (words) =>
    words.map((word) => [word, ["so", "long", ...words.filter((other) => other !== word)]]);
  writeFileSync(at("table.json"), JSON.stringify(Object.fromEntries(Object.values(moods).flatMap(listSubstitutes))));
  const data = ["--data", at("reviews.tsv"), "--text-column", "text", "--label-column", "label"];
  const tokenization = ["--tokenization", "word", "--max-length", "32", "--substitutions", at("table.json")];

  const methods =
    "standard r-drop rose child-tuning child-tuning:variant=F smart freelb ascc ascc+rift ascc+ptwd ascc+mixout " +
    "lora lora+ascc " +
    "discrete-adversarial:interval=5,maxQueries=50 hash-vote:groups=3 random-windows:size=8";
  const toArguments = (name) => (name === "standard" ? [] : name.split("+").flatMap((method) => ["--method", method]));
  const runs = [...methods.split(" ").map((name) => [name, toArguments(name)])];
  for (const [name, chosen] of runs) {
    const place = ["--epochs", "1", "--device", device, "--out", at(name.replace(/\W/g, "-"))];
    const failure = await temper("train", "--model", model, ...data, ...tokenization, ...chosen, ...place).then(
      () => null,
      (error) => error.stderr ?? error.message,
    );
    report("a run from the command line", failure === null, name, failure ?? "");
  }

  const [first, second] = [at("standard"), at("rose")];
  const exact = ["--precision", "fp32"];
  const attacks = ["pwws", "genetic", "greedy", "random", "ascc"];
  /** The arguments of each command. OUT stands for its output folder. */
  const cases = new Map([
    ["evaluate", ["evaluate", first, ...data, ...exact]],
    ["predict", ["predict", first, at("texts.txt"), ...exact]],
    ...attacks.map((name) => [
      name,
      ["attack", first, ...data, "--attack", name, "--num-examples", "40", "--no-cache", "--out", "OUT", ...exact],
    ]),
    ["distance", ["analyze", "distance", first, second, "--out", "OUT"]],
    // One iteration only: over twenty, t-SNE magnifies a difference of 1e-7 to the size of the figure.
    [
      "geometry",
      ["analyze", "geometry", first, "--num-examples", "60", "--perplexity", "5", "--iterations", "1", "--out", "OUT"],
    ],
    ["landscape", ["analyze", "landscape", first, "--points", "3", "--num-examples", "32", "--out", "OUT"]],
    [
      "interpolation",
      ["analyze", "interpolation", first, second, "--points", "3", "--num-examples", "32", "--out", "OUT"],
    ],
    // Replays the journal of the CPU.
    ["verify", ["verify", join(at("pwws-cpu"), "pwws.jsonl"), "--model", first, ...exact]],
  ]);
  for (const [name, args] of cases) {
    const runOn = async (place, out) =>
      parseOutput(
        await temper(...args.map((arg) => (arg === "OUT" ? at(`${name}-${out}`) : arg)), "--device", place, "--json"),
      );
    const title = `${name} on a GPU = on a CPU`;
    try {
      const found = listDifferences(await runOn(device, "gpu"), await runOn("cpu", "cpu"), 1e-3);
      report(title, found.length === 0, ...found.slice(0, 3));
    } catch (error) {
      report(title, false, error.stderr ?? error.message);
    }
  }
}
