#!/usr/bin/env node
// `make bench-inference`: the 872 texts of SST-2's dev set, classified with MiniLM by Temper on libtorch and on ONNX Runtime,
// by ONNX Runtime's own pipeline and by OpenVINO. Each side is a process of its own, which loads its model before. The sides
// take turns in alternating order, so that other processes on the host affect all of them. Tokenization does not count.
//   node tools/bench/inference.mjs [--rounds 10] [--threads 2] [--model RUN] [--max-train-samples 4000] [--only NAME]
// PEER_PYTHON is a Python with onnxruntime, onnx, sympy, openvino, nncf, torch and transformers (default: build/peers/bin/python).
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { loadLocalModel } from "../../dist/actions/load/load-local-model.js";
import { classify, createClassifier, tokenizeAll } from "../../dist/models/index.js";
import { loadTask } from "../../dist/tasks/index.js";
import { getCpuSupport } from "../../dist/tensor/index.js";
import { median, startPeer } from "./helpers.mjs";
import { exportVictim, trainVictim } from "./victim.mjs";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "10" },
    threads: { type: "string", default: process.env.OMP_NUM_THREADS ?? String(availableParallelism()) },
    model: { type: "string" },
    "max-train-samples": { type: "string", default: "4000" },
    only: { type: "string", multiple: true },
    side: { type: "string" },
  },
});
const peerProgram = "tools/bench/inference_peers.py";

/** @param {string} reference */
const load = async (reference, precision = "fp32") =>
  loadLocalModel(reference, { device: "cpu", threads: Number(options.threads), precision });

/** The texts of the dev set as tokens. */
async function readTexts(model) {
  const examples = await (await loadTask({ task: "sst2" })).load("test");
  const encodings = tokenizeAll(
    model,
    examples.map(({ texts }) => texts),
  );
  return { encodings, labels: examples.map(({ label }) => label) };
}

/** Classifies all texts for each line of standard input, and prints how long it took. */
async function serveSide(reference, precision) {
  const { model, runtime } = await load(reference, precision);
  const { encodings, labels } = await readTexts(model);
  const classifier = createClassifier(model, model.weights, runtime);
  const run = async () => {
    const [start, before] = [performance.now(), process.cpuUsage()];
    const rows = await classify(classifier, encodings);
    const { user, system } = process.cpuUsage(before);
    const correct = rows.filter((row, i) => row.indexOf(Math.max(...row)) === labels[i]).length;
    return { seconds: (performance.now() - start) / 1000, cpu: (user + system) / 1e6, correct };
  };
  await run();
  console.log("{}");
  for await (const _ of createInterface({ input: process.stdin })) console.log(JSON.stringify(await run()));
}

/** The peers, prepared in a folder, or none with a message. */
async function listPeers(run, folder) {
  const python = process.env.PEER_PYTHON ?? "build/peers/bin/python";
  if (!existsSync(python)) {
    console.log(`Only Temper is measured: ${python} does not exist. Set PEER_PYTHON.`);
    return [];
  }
  mkdirSync(folder, { recursive: true });
  const { model } = await load(run);
  const { encodings, labels } = await readTexts(model);
  const texts = encodings.map(({ ids }) => [...ids]);
  writeFileSync(join(folder, "texts.json"), JSON.stringify({ texts, labels, padId: model.tokenizer.special.padId }));
  const prepare = [peerProgram, "prepare", join(run, "model"), folder];
  const { status } = spawnSync(python, prepare, { stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) throw new Error(`${peerProgram} prepare failed`);
  const names = ["onnxruntime fp32", "onnxruntime int8", "openvino fp32", "openvino int8"];
  const titles = { onnxruntime: "ONNX Runtime's own pipeline", openvino: "OpenVINO" };
  return names.map((name) => {
    const [engine, precision] = name.split(" ");
    const args = [peerProgram, "run", engine, precision, folder, options.threads];
    return { name: `${titles[engine]} ${precision}`, program: python, args };
  });
}

async function main() {
  const run = options.model ?? trainVictim(options["max-train-samples"], options.threads);
  const exported = exportVictim(run);
  const support = getCpuSupport();
  const own = (name, reference, precision) => ({
    name,
    program: process.execPath,
    args: [...process.argv.slice(1), "--side", `${precision}:${reference}`],
  });
  const all = [
    own("Temper fp32", run, "fp32"),
    ...(support.bf16 ? [own("Temper bf16", run, "bf16")] : []),
    own("Temper int8", run, "int8"),
    own("Temper's ONNX file fp32", join(exported, "onnx/model.onnx"), "fp32"),
    own("Temper's ONNX file int8", join(exported, "onnx/model_quantized.onnx"), "int8"),
    ...(await listPeers(run, `${exported}-peers`)),
  ];
  const chosen = all.filter(({ name }) => !options.only || options.only.some((part) => name.includes(part)));
  const sides = [];
  for (const { name, program, args } of chosen) sides.push({ name, results: [], ...(await startPeer(program, args)) });
  for (let round = 0; round < Number(options.rounds); round++)
    for (const side of round % 2 ? sides.toReversed() : sides) side.results.push(await side.ask("run"));
  for (const side of sides) side.stop();
  console.log(
    `${run}, ${options.threads} threads, ${options.rounds} rounds, ${cpus()[0].model}, ` +
      `fast instructions: ${JSON.stringify(support)}, load at the end: ${loadavg()[0].toFixed(1)}`,
  );
  console.log("| | texts/s, median (best) | texts per CPU second | accuracy |\n|---|---|---|---|");
  for (const { name, results } of sides) {
    const count = 872;
    const [seconds, cpu] = [results.map((result) => result.seconds), results.map((result) => result.cpu)];
    const rate = (value) => (count / value).toFixed(0);
    const accuracy = `${((100 * results[0].correct) / count).toFixed(1)}%`;
    console.log(
      `| ${name} | ${rate(median(seconds))} (${rate(Math.min(...seconds))}) | ${rate(median(cpu))} | ${accuracy} |`,
    );
  }
}

if (options.side === undefined) await main();
else {
  const [, precision, reference] = /^(\w+):(.*)$/.exec(options.side);
  await serveSide(reference, precision);
}
