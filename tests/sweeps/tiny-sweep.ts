import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import type { ResultsTable } from "../../src/sweeps/table.js";
import { main } from "../cli/built.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

type Tree = Record<string, unknown>;

/** Words of the reviews, each with a substitute of the opposite meaning. */
const substitutions = {
  good: ["bad"],
  fine: ["dull"],
  bright: ["grey"],
  warm: ["cold"],
  bad: ["good"],
  dull: ["fine"],
  grey: ["bright"],
};

/** Writes a model, data and a sweep whose runs take one or two seconds. Returns the sweep file. */
export async function writeTinySweep(folder: string, changes: Tree = {}): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const table = join(folder, "substitutions.json");
  writeFileSync(table, JSON.stringify(substitutions));
  const file = join(folder, "sweep.yaml");
  const sweep = {
    title: "A tiny sweep",
    model: await writeTinyBert(join(folder, "tiny-bert")),
    data: writeReviews(join(folder, "reviews.tsv")),
    textColumn: ["text"],
    labelColumn: "label",
    tokenization: "word",
    substitutions: table,
    device: "cpu",
    threads: 1,
    train: { epochs: 4, batchSize: 8, learningRate: 3e-2, saveSteps: 5 },
    rows: { standard: null, dropless: { title: "without dropout", train: { dropout: false } } },
    seeds: [0, 1, 2],
    baseline: "standard",
    ...changes,
  };
  writeFileSync(file, stringify(sweep));
  return file;
}

/** Stands for the program: its workers finish at once, as the variable FAKE says. */
export const fakeProgram = [process.execPath, join(import.meta.dirname, "fake-worker.mjs")];

/** What such a worker has recorded. */
export interface Execution {
  readonly label: string;
  readonly kind: string;
  readonly seed: number;
  readonly pid: number;
  readonly gpu?: string;
  readonly threads?: string;
  readonly shared?: string;
  readonly processes?: string;
}

/** Reads what the workers of a folder have recorded in its file `calls`. */
export function readCalls(folder: string): Execution[] {
  const lines = readFileSync(join(folder, "calls"), "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Execution);
}

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the built program and waits for it. */
export function temper(args: readonly string[], env: Record<string, string> = {}): Ended {
  return spawnSync(process.execPath, [main, ...args], { encoding: "utf8", env: { ...process.env, ...env } });
}

/** Starts the built program. `ended` waits for it. */
export function startTemper(
  args: readonly string[],
  env: Record<string, string> = {},
): { pid: number; kill(): void; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk));
  const ended = new Promise<Ended>((resolve) => child.once("close", (status) => resolve({ status, stdout, stderr })));
  return { pid: child.pid!, kill: () => void child.kill("SIGKILL"), ended };
}

/** The table that a sweep wrote. */
export function readTable(out: string): ResultsTable {
  return JSON.parse(readFileSync(join(out, "table.json"), "utf8")) as ResultsTable;
}
