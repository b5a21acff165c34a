#!/usr/bin/env node
// `make bench`: a MiniLM-size forward pass and training step beside transformers on the same libtorch, turn by turn, and the cost of
// a tiny operator. Medians of interleaved rounds: what else the machine does strikes both sides alike.
//   node scripts/bench/main.mjs [--rounds 11] [--threads N] [--only forward|step|tiny] [--length 32|128]
import { parseArgs } from "node:util";
import { setThreads, threads } from "../../dist/tensor/index.js";
import { native } from "../../dist/tensor/native.js";
import { config, forwardTime, stepTime, tinyTime } from "./ours.mjs";
import { findReference, startReference } from "./reference.mjs";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "11" },
    threads: { type: "string" },
    only: { type: "string" },
    length: { type: "string" },
  },
});
const rounds = Number(options.rounds);
if (!(rounds >= 1)) throw new Error(`--rounds: expected a number from 1, received ${options.rounds}`);
if (options.threads) setThreads(Number(options.threads));

const kinds = [
  { kind: "forward", name: "forward", time: forwardTime },
  { kind: "step", name: "training step", time: stepTime },
].filter(({ kind }) => (options.only ?? kind) === kind);
const workloads = [32, 128]
  .filter((length) => Number(options.length ?? length) === length)
  .flatMap((length) => kinds.map((kind) => ({ ...kind, rows: 32, length })));
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const { libtorch } = native().versions();
const python = findReference();
const reference = python && (await startReference(python, { threads: threads(), config }));
console.log(
  `libtorch ${libtorch}, ${threads()} threads, ${rounds} rounds, medians; MiniLM size: 6 layers of 384, 12 heads`,
);
if (reference) {
  const { torch, transformers, adamw } = reference.facts;
  console.log(`beside transformers ${transformers} on PyTorch ${torch} (sdpa, ${adamw} AdamW)`);
  if (torch.split("+")[0] !== libtorch.split("+")[0])
    console.log("NOTE: two versions of libtorch are compared; LIBTORCH can name Python's");
} else console.log("no Python with torch and transformers (TEMPER_PYTHON, or python3 on PATH): our own times alone");

const line = (cells) => console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(24) : cell.padStart(14))).join(""));
line(["milliseconds", "ours", "theirs", "ratio", "ours, whole*", "ratio"]);
for (const { kind, name, rows, length, time } of workloads) {
  const ours = [];
  const whole = [];
  const theirs = [];
  const turns = [
    () => ours.push(time(rows, length, false)),
    () => whole.push(time(rows, length, true)),
    async () => reference && theirs.push(await reference.ask({ kind, rows, length })),
  ];
  // The first two rounds warm both sides up; each round begins with another turn.
  for (let round = -2; round < rounds; round++) {
    if (round === 0) for (const list of [ours, whole, theirs]) list.length = 0;
    for (let turn = 0; turn < turns.length; turn++) await turns[(turn + round + 2) % turns.length]();
  }
  const ratio = (own) => (reference ? `${(median(theirs) / median(own)).toFixed(2)}x` : "-");
  const times = [ours, theirs, whole].map((list) => (list.length > 0 ? median(list).toFixed(1) : "-"));
  line([`${name} ${rows} x ${length}`, times[0], times[1], ratio(ours), times[2], ratio(whole)]);
}
console.log("* the last layer at every position, as transformers computes it; a classifier reads the first alone");

if ((options.only ?? "tiny") === "tiny") {
  const count = 20_000;
  const ours = [];
  const theirs = [];
  for (let round = -1; round < rounds; round++) {
    if (round === 0) ours.length = theirs.length = 0;
    ours.push(tinyTime(count));
    if (reference) theirs.push(await reference.ask({ kind: "tiny", count }));
  }
  console.log(
    `a tiny operator: ${median(ours).toFixed(2)} us${reference ? `, from Python ${median(theirs).toFixed(2)} us` : ""}`,
  );
}
reference?.stop();
