// What is killed: every command that writes for more than a moment, training in two processes and a job of the studio,
// on a model of a few hundred weights.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { Rng } from "../../dist/base/rng.js";
import { writeSafetensors } from "../../dist/models/checkpoint/safetensors-writer.js";
import { parseModelConfig } from "../../dist/models/config.js";
import { getEncoderParameterShapes } from "../../dist/models/encoder.js";

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {(out: string, program: string[]) => string[]} getCommand for a new run, or to resume what is
 *   in the folder. `program` starts temper.
 * @property {(out: string, parent: number) => number[]} [listProcesses] processes that the command started
 * @property {boolean} [hasProcesses] whether it starts others, which a signal ends before it answers
 * @property {string} [needs] the workload whose undisturbed results it reads, besides those of train
 * @property {(out: string) => string[]} listResults the files that must be bitwise identical
 */

const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const praise = ["good", "fine", "bright", "warm"];
const blame = ["bad", "dull", "gray", "cold"];
const filler = ["a", "the", "film", "plot", "was", "and", "very", "scene", "of", "it"];
const vocabulary = [...special, ...praise, ...blame, ...filler];

/**
 * Starts a server that speaks the format of Text Embeddings Inference, and writes its address. It ends with this process.
 * @param {string} folder
 */
async function serveEndpoint(folder) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { inputs } = /** @type {{ inputs: string[] }} */ (JSON.parse(body));
    const rate = (/** @type {string} */ text) => {
      const count = (/** @type {string[]} */ words) => text.split(" ").filter((word) => words.includes(word)).length;
      return 1 / (1 + Math.exp(count(blame) - count(praise) - text.length / 100));
    };
    const answers = inputs.map((text) => [
      { label: "positive", score: rate(text) },
      { label: "negative", score: 1 - rate(text) },
    ]);
    response.end(JSON.stringify(answers));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  server.unref();
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  writeFileSync(join(folder, "endpoint.txt"), `http://127.0.0.1:${port}/`);
}

/** Writes a model, reviews, substitutions and a sweep, and starts an endpoint. @param {string} folder */
export async function writeInputs(folder) {
  await serveEndpoint(folder);
  const model = join(folder, "model");
  mkdirSync(model, { recursive: true });
  const sizes = { hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16 };
  const config = { model_type: "bert", vocab_size: vocabulary.length, ...sizes, max_position_embeddings: 12 };
  writeFileSync(join(model, "config.json"), JSON.stringify(config));
  writeFileSync(join(model, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  const rng = new Rng("chaos");
  const tensors = [...getEncoderParameterShapes(parseModelConfig(config, "chaos"))].map(([name, shape]) => {
    const isNorm = name.includes("LayerNorm");
    const length = shape.reduce((/** @type {number} */ product, /** @type {number} */ size) => product * size, 1);
    const values = Float32Array.from({ length }, () => (isNorm ? Number(name.endsWith("weight")) : rng.next() - 0.5));
    return { name, dtype: /** @type {const} */ ("F32"), shape, bytes: () => new Uint8Array(values.buffer) };
  });
  await writeSafetensors(join(model, "model.safetensors"), tensors);
  const pick = (/** @type {readonly string[]} */ from) => from[rng.integer(from.length)] ?? "a";
  const lines = Array.from({ length: 160 }, (_, i) => {
    const words = Array.from({ length: 1 + rng.integer(7) }, () => pick(filler));
    words.splice(rng.integer(words.length + 1), 0, pick(i % 2 ? praise : blame));
    return `${words.join(" ")}\t${i % 2 ? "positive" : "negative"}`;
  });
  writeFileSync(join(folder, "reviews.tsv"), `text\tlabel\n${lines.join("\n")}\n`);
  writeFileSync(join(folder, "texts.txt"), lines.map((line) => `${line.split("\t")[0]}\n`).join(""));
  const opposites = praise.flatMap((word, i) => [
    [word, [blame[i], "film"]],
    [blame[i], [word, "plot"]],
  ]);
  writeFileSync(join(folder, "table.json"), JSON.stringify(Object.fromEntries(opposites)));
  // Texts that no split has, so that a guard can be calibrated with them.
  writeFileSync(join(folder, "benign.txt"), lines.map((_, i) => `fine plot ${i}\n`).join(""));
  const vectors = vocabulary.map(
    (word) => `${word} ${Array.from({ length: 16 }, () => rng.next().toFixed(4)).join(" ")}`,
  );
  writeFileSync(join(folder, "vectors.txt"), vectors.map((line) => `${line}\n`).join(""));
  const sweep = {
    title: "Chaos",
    model,
    data: join(folder, "reviews.tsv"),
    textColumn: ["text"],
    labelColumn: "label",
    device: "cpu",
    threads: 1,
    train: { epochs: 2, batchSize: 8, learningRate: 0.01, saveSteps: 5 },
    rows: { standard: null, dropless: { train: { dropout: false } } },
    seeds: [0],
  };
  writeFileSync(join(folder, "sweep.yaml"), JSON.stringify(sweep));
}

const studioJob = resolve(import.meta.dirname, "studio-job.mjs");

/** The processes of the jobs of a studio. They go on without it. @param {string} out */
function listJobProcesses(out) {
  const jobs = join(out, ".studio", "jobs");
  if (!existsSync(jobs)) return [];
  return readdirSync(jobs).flatMap((id) => {
    const path = join(jobs, id, "process.json");
    return existsSync(path) ? [/** @type {{ pid: number }} */ (JSON.parse(readFileSync(path, "utf8"))).pid] : [];
  });
}

/** The first process that a command has started, so that a kill leaves the others. @param {string} _ @param {number} parent */
function listOneChild(_, parent) {
  const { stdout } = spawnSync("pgrep", ["-P", String(parent)], { encoding: "utf8" });
  return stdout.split("\n").slice(0, 1).filter(Boolean).map(Number);
}

/** A command that replaces or continues its own results. @param {string} name @param {RegExp} results their names */
const repeatable = (name, results, /** @type {(out: string) => string[]} */ getWords) => ({
  name,
  getCommand(/** @type {string} */ out, /** @type {string[]} */ program) {
    mkdirSync(out, { recursive: true });
    return [...program, name, ...getWords(out)];
  },
  listResults: (/** @type {string} */ out) =>
    readdirSync(out, { recursive: true, encoding: "utf8" }).filter((path) => results.test(path)),
});

/** A command that only prints. @param {string} name @param {string[]} words @returns {Workload} */
const printing = (name, words) => ({ ...repeatable(name, /^$/, () => words), listResults: () => [] });

/** @param {string} folder @returns {Workload[]} */
export function createWorkloads(folder) {
  const data = ["--data", join(folder, "reviews.tsv"), "--text-column", "text", "--label-column", "label"];
  const runtime = ["--device", "cpu", "--threads", "1", "--quiet"];
  const victim = join(folder, "reference-train");
  const settings = ["--epochs", "6", "--batch-size", "8", "--learning-rate", "1e-2", "--set", "train.saveSteps=5"];
  const runFiles = ["events.jsonl", "results.json", "model/model.safetensors", "model/config.json", "model/vocab.txt"];
  const model = ["--model", join(folder, "model")];
  const table = ["--substitutions", join(folder, "table.json")];
  /** @type {(name: string, words: string[], resumed?: string[]) => Workload} */
  const training = (name, words, resumed = []) => ({
    name,
    getCommand: (out, program) => [
      ...[...program, "train", "--out", out],
      ...(existsSync(join(out, "config.yaml")) ? ["--resume", "--quiet", ...resumed] : words),
    ],
    listResults: () => runFiles,
  });
  const trained = [...model, ...data, ...settings, ...runtime];
  return [
    training("train", trained),
    {
      ...training("ranks", [...trained, "--processes", "2"], ["--processes", "2"]),
      hasProcesses: true,
      listProcesses: listOneChild,
    },
    {
      name: "shards",
      getCommand: (out, program) => [
        ...[...program, "attack", victim, ...data, ...table, "--attack", "genetic:population=8,iterations=6"],
        ...["--num-examples", "48", "--processes", "3", ...runtime, "--out", out],
        ...(existsSync(out) ? ["--resume"] : []),
      ],
      hasProcesses: true,
      listProcesses: listOneChild,
      listResults: () => ["genetic.jsonl"],
    },
    {
      name: "export",
      // The folder appears with its whole content, and is not replaced.
      getCommand: (out, program) =>
        existsSync(join(out, "exported"))
          ? [process.execPath, "--version"]
          : [...program, "export", victim, ...data, "--quantize", "int8", "--out", join(out, "exported"), "--quiet"],
      listResults: () => ["model.onnx", "model_quantized.onnx"].map((name) => join("exported", "onnx", name)),
    },
    repeatable("gate", /\.jsonl$/, (out) => [
      ...[victim, "--baseline", victim, ...data, ...table, "--num-examples", "12", "--max-drop", "100"],
      ...[...runtime, "--out", out, "--lock", join(out, "gate.lock")],
    ]),
    repeatable("predict", /\.jsonl$/, (out) => [
      ...[victim, join(folder, "texts.txt"), ...runtime, "--out", join(out, "predicted.jsonl")],
    ]),
    {
      ...repeatable("calibrate", /calibration\.json$/, (out) => {
        // The threshold is stored in the run.
        if (existsSync(victim)) cpSync(victim, out, { recursive: true, force: false });
        return [out, "--benign", join(folder, "benign.txt"), "--fpr", "0.05", "--windows", "4", ...runtime];
      }),
    },
    {
      name: "substitutions",
      // Attacks depend on a table, so a finished one is not replaced.
      getCommand: (out, program) =>
        existsSync(join(out, "table.json"))
          ? [process.execPath, "--version"]
          : [
              ...[...program, "substitutions", "build", "--vectors", join(folder, "vectors.txt")],
              ...["--out", join(out, "table.json"), "--quiet"],
            ],
      listResults: () => ["table.json"],
    },
    repeatable("audit", /^audit\.(json|html)$/, (out) => {
      // The rate of the host decides sizes, so a disturbed audit has the plan of the undisturbed one.
      const reference = join(folder, "reference-audit");
      if (out !== reference && existsSync(reference) && !existsSync(join(out, "progress.json"))) {
        const progress = JSON.parse(readFileSync(join(reference, "progress.json"), "utf8"));
        writeFileSync(join(out, "progress.json"), JSON.stringify({ ...progress, steps: {}, seconds: 0 }));
        cpSync(join(reference, ".temper.json"), join(out, ".temper.json"));
      }
      return [
        ...[victim, ...data, ...table, "--attack", "pwws", "--num-examples", "12", "--query-budget", "60"],
        ...["--max-changes", "1", "--minutes", "10", ...runtime, "--out", out],
      ];
    }),
    printing("evaluate", [victim, ...data, ...runtime]),
    printing("compare", [victim, victim]),
    printing("predict", [victim, join(folder, "texts.txt"), "--device", "cpu", "--threads", "1", "--json"]),
    printing("runs", [folder]),
    printing("try", ["--seed", "3", "--quiet"]),
    repeatable("report", /\.html$/, (out) => [victim, "--out", join(out, "report.html")]),
    repeatable("exact", /\.jsonl$/, (out) => [
      ...[victim, ...data, ...table, "--max-changes", "2", "--num-examples", "40", ...runtime, "--out", out],
    ]),
    {
      name: "certify",
      getCommand: (out, program) => [
        ...[...program, "certify", victim, ...data, "--kind", "windows:size=4,positiveLabel=positive"],
        ...["--num-examples", "100", ...runtime, "--out", out],
        ...(existsSync(join(out, "windows.jsonl")) ? ["--resume"] : []),
      ],
      listResults: () => ["windows.jsonl"],
    },
    repeatable("harden", /(events|attacks\/\w+)\.jsonl$|model\.safetensors$/, (out) => [
      ...[...model, ...data, ...table, "--method", "r-drop", "--epochs", "2", "--batch-size", "8"],
      ...["--learning-rate", "1e-2", "--num-examples", "20", ...runtime, "--out", out],
    ]),
    {
      name: "attack",
      getCommand: (out, program) => [
        ...[...program, "attack", victim, ...data, "--num-examples", "100", "--concurrency", "8"],
        ...[...table, "--attack", "pwws"],
        ...["--attack", "genetic:population=8,iterations=6", ...runtime, "--out", out],
        ...(existsSync(out) ? ["--resume"] : []),
      ],
      listResults: () => ["pwws.jsonl", "genetic.jsonl"],
    },
    {
      name: "endpoint",
      getCommand: (out, program) => [
        ...[
          ...program,
          "attack",
          readFileSync(join(folder, "endpoint.txt"), "utf8"),
          ...data,
          ...table,
          "--attack",
          "pwws",
        ],
        ...["--attack", "deepwordbug", "--num-examples", "100", "--quiet", "--out", out],
        ...["--endpoint", "labels=$[*][*].label", "--endpoint", "scores=$[*][*].score", "--endpoint", "batchSize=4"],
        ...(existsSync(out) ? ["--resume"] : []),
      ],
      listResults: () => ["pwws.jsonl", "deepwordbug.jsonl"],
    },
    {
      ...printing("verify", [
        ...[join(folder, "reference-attack", "pwws.jsonl"), "--model", victim, "--repeat", "20", ...runtime],
      ]),
      needs: "attack",
    },
    {
      name: "sweep",
      getCommand: (out, program) => [
        ...[...program, "sweep", join(folder, "sweep.yaml"), "--out", out, "--jobs", "2", "--no-estimate", "--quiet"],
        ...(existsSync(join(out, "sweep.json")) ? ["--resume"] : []),
      ],
      listResults: (out) => [
        "table.json",
        ...readdirSync(join(out, "runs")).flatMap((run) =>
          ["events.jsonl", "results.json"].map((file) => join("runs", run, file)),
        ),
      ],
    },
    {
      name: "landscape",
      getCommand: (out, program) => [
        ...[...program, "analyze", "landscape", victim, "--points", "21", "--num-examples", "16"],
        ...[...runtime, "--out", out],
      ],
      listResults: () => ["landscape.json", "landscape.svg"],
    },
    {
      name: "studio",
      getCommand: (out, program) => [process.execPath, studioJob, folder, out, ...program],
      hasProcesses: true,
      listProcesses: listJobProcesses,
      listResults: () => runFiles.map((file) => join("one", file)),
    },
  ];
}
