#!/usr/bin/env node
// `make bench`: a MiniLM-size forward pass and training step compared with transformers on the same libtorch, in turns, and the
// cost of a tiny operator. The medians are of interleaved rounds, so other processes on the host affect both sides equally.
//   node tools/bench/engine.mjs [--rounds 11] [--threads N] [--only forward|step|tiny] [--length 32|128]
import { parseArgs } from "node:util";
import { getNumThreads, setNumThreads } from "../../dist/tensor/index.js";
import { native } from "../../dist/tensor/native.js";
import { findPython, median, printRow, startPeer } from "./helpers.mjs";
import { config, timeForward, timeStep, timeTinyOperator } from "./temper.mjs";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "11" },
    threads: { type: "string" },
    only: { type: "string" },
    length: { type: "string" },
  },
});
const rounds = Number(options.rounds);
if (!(rounds >= 1)) throw new Error(`--rounds: expected 1 or more, received ${options.rounds}`);
if (options.threads) setNumThreads(Number(options.threads));

const kinds = [
  { kind: "forward", name: "forward", time: timeForward },
  { kind: "step", name: "training step", time: timeStep },
].filter(({ kind }) => (options.only ?? kind) === kind);
const workloads = [32, 128]
  .filter((length) => Number(options.length ?? length) === length)
  .flatMap((length) => kinds.map((kind) => ({ ...kind, batchSize: 32, length })));

const { libtorch } = native().versions();
const threads = getNumThreads();
const python = findPython();
const program = new URL("transformers_steps.py", import.meta.url).pathname;
const transformers = python && (await startPeer(python, [program, JSON.stringify({ threads, config })]));
console.log(
  `libtorch ${libtorch}, ${threads} threads, ${rounds} rounds, medians; MiniLM size: 6 layers of 384, 12 heads`,
);
if (transformers) {
  const { torch, transformers: version, adamw } = transformers.facts;
  console.log(`compared with transformers ${version} on PyTorch ${torch} (sdpa, ${adamw} AdamW)`);
  if (torch.split("+")[0] !== libtorch.split("+")[0])
    console.log("WARNING: the versions of libtorch differ. Set LIBTORCH to the libtorch of Python's torch.");
} else console.log("No Python with torch and transformers found (TEMPER_PYTHON, python3): only Temper is measured.");

printRow(["milliseconds", "Temper", "transformers", "ratio", "all tokens*", "ratio"], 24);
for (const { kind, name, batchSize, length, time } of workloads) {
  const temper = [];
  const allPositions = [];
  const peer = [];
  const turns = [
    () => temper.push(time(batchSize, length, false)),
    () => allPositions.push(time(batchSize, length, true)),
    async () => transformers && peer.push(await transformers.ask({ kind, batchSize, length })),
  ];
  // The first two rounds warm up both sides. Each round starts with another side.
  for (let round = -2; round < rounds; round++) {
    if (round === 0) for (const list of [temper, allPositions, peer]) list.length = 0;
    for (let turn = 0; turn < turns.length; turn++) await turns[(turn + round + 2) % turns.length]();
  }
  const ratio = (list) => (transformers ? `${(median(peer) / median(list)).toFixed(2)}x` : "-");
  const times = [temper, peer, allPositions].map((list) => (list.length > 0 ? median(list).toFixed(1) : "-"));
  printRow([`${name} ${batchSize} x ${length}`, times[0], times[1], ratio(temper), times[2], ratio(allPositions)], 24);
}
console.log(
  "* Temper with the last layer at every token, as transformers computes it; a classifier needs only the first",
);

if ((options.only ?? "tiny") === "tiny") {
  const count = 20_000;
  const temper = [];
  const peer = [];
  for (let round = -1; round < rounds; round++) {
    if (round === 0) temper.length = peer.length = 0;
    temper.push(timeTinyOperator(count));
    if (transformers) peer.push(await transformers.ask({ kind: "tiny", count }));
  }
  const fromPython = transformers ? `, from Python ${median(peer).toFixed(2)} us` : "";
  console.log(`a tiny operator: ${median(temper).toFixed(2)} us${fromPython}`);
}
transformers?.stop();
