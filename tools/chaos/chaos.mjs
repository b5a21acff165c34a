// Kills commands, training in two processes and jobs of the studio at random moments, and lets their
// files fail. After each kill the work is resumed. In the end it must be bitwise identical to an
// undisturbed one, and no file may be half-written. CHAOS_KILLS, CHAOS_SEED, CHAOS_SECONDS,
// CHAOS_WORKLOADS and CHAOS_WORKERS change the extent. build/chaos/summary.json has the counts.
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Rng } from "../../dist/base/rng.js";
import { readBusySeconds } from "../read-busy-seconds.mjs";
import { findBadEnd, findBrokenFiles } from "./find-damage.mjs";
import { createWorkloads, writeInputs } from "./workloads.mjs";

/** @typedef {import("./workloads.mjs").Workload} Workload */
/** @typedef {import("./find-damage.mjs").Ended} Ended */

const kills = Number(process.env.CHAOS_KILLS ?? 200);
const seed = process.env.CHAOS_SEED ?? String(Date.now());
const deadline = Date.now() + 1000 * Number(process.env.CHAOS_SECONDS ?? 3600);
const workers = Number(process.env.CHAOS_WORKERS ?? 1);
const root = resolve(import.meta.dirname, "../..");
const main = join(root, "dist/cli/main.js");
const preload = join(import.meta.dirname, "fail-files.cjs");
const folder = mkdtempSync(join(tmpdir(), "temper-chaos-"));
const temper = [process.execPath, main];
const npx = ["npx", "--no-install", "temper"];
const hasNpx = spawnSync("npx", ["--version"]).status === 0;
const stops = /** @type {const} */ (["SIGTERM", "SIGINT", "SIGHUP"]);
const faults = /** @type {const} */ (["SIGKILL", ...stops, "ENOSPC", "EIO", "npx", "zombie"]).filter(
  (fault) => fault !== "npx" || hasNpx,
);
const isStop = (/** @type {string} */ fault) => stops.some((each) => each === fault);
/** Seconds of the processor after a signal: 2 for the command, and what is left of the start or a batch. */
const maxBusySeconds = 3;
let longestStop = 0;
/** @typedef {{ out: string, milliseconds: number, calls: number }} Reference */

/**
 * Starts a command as the leader of a process group.
 * @param {readonly string[]} command
 * @param {Record<string, string>} env
 */
function start(command, env) {
  const [program = "", ...args] = command;
  const child = spawn(program, args, {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    // Moved last bits differ between the batches of a resumed attack.
    env: { ...process.env, TEMPER_JITTER: undefined, TEMPER_CACHE: join(folder, "cache"), ...env },
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk) => (stdout += chunk));
  child.stderr.on("data", (chunk) => (stderr += chunk));
  /** @type {Promise<Ended>} */
  const ended = new Promise((done) => child.once("close", (code, signal) => done({ code, signal, stderr })));
  return { pid: child.pid ?? 0, ended, getOutput: () => stdout };
}

/** @param {number} target @param {NodeJS.Signals} signal */
function send(target, signal) {
  try {
    process.kill(target, signal);
    return true;
  } catch {
    return false;
  }
}

/** Reads how often a command called the file system, in the process that did so most often. */
function readCalls(/** @type {string} */ path) {
  const numbers = existsSync(path) ? readFileSync(path, "utf8").trim().split("\n").map(Number) : [1];
  return Math.max(1, ...numbers);
}

/**
 * Runs a workload with one fault. Returns whether the fault hit it before it ended, and how it ended.
 * @param {Workload} workload
 * @param {(typeof faults)[number]} fault
 * @param {{ milliseconds: number, calls: number }} left how much the workload has left to do, at most
 * @param {string} out
 * @param {Rng} rng
 */
async function runWithFault(workload, fault, { milliseconds, calls }, out, rng) {
  const moment = 150 + rng.integer(Math.ceil(milliseconds));
  if (fault === "ENOSPC" || fault === "EIO") {
    const call = 1 + rng.integer(calls);
    const env = { NODE_OPTIONS: `--require ${preload}`, CHAOS_FAIL: `${fault}:${call}`, CHAOS_FOLDER: out };
    const ended = await start(workload.getCommand(out, temper), env).ended;
    return { hit: ended.code !== 0, ended, detail: `call ${call}` };
  }
  // A kill hits the processes that a command has started, or the command, or both.
  const target = workload.listProcesses ? rng.integer(3) : 0;
  const signalJobs = (/** @type {NodeJS.Signals} */ signal, /** @type {number} */ parent) =>
    target !== 0 && (workload.listProcesses?.(out, parent) ?? []).filter((pid) => send(pid, signal)).length > 0;
  if (fault === "zombie") {
    // The shell becomes a program that never reaps its child, like a container without an init.
    const command = `"$@" & echo $!; exec sleep 600`;
    const tree = start(["sh", "-c", command, "sh", ...workload.getCommand(out, temper)], {});
    await delay(moment);
    while (!tree.getOutput().includes("\n")) await delay(20);
    const pid = Number(tree.getOutput().split("\n")[0]);
    const isZombie = /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    if (isZombie) {
      send(-tree.pid, "SIGKILL");
      await tree.ended;
      return { hit: false, ended: null, detail: "ended before the kill" };
    }
    signalJobs("SIGKILL", pid);
    send(pid, "SIGKILL");
    return { hit: true, ended: null, detail: `after ${moment} ms`, tree };
  }
  const running = start(workload.getCommand(out, fault === "npx" ? npx : temper), {});
  await Promise.race([delay(moment + (fault === "npx" ? 500 : 0)), running.ended]);
  // A terminal and a scheduler signal the whole group.
  const signal = fault === "npx" ? (rng.next() < 0.5 ? "SIGKILL" : "SIGINT") : fault;
  const hitJobs = signalJobs(signal, running.pid);
  const hit = (target !== 1 && send(-running.pid, signal)) || hitJobs;
  // If no job runs yet, the studio starts one and waits for it.
  const busy = await measureBusySeconds(running);
  const ended = await running.ended;
  await waitForGroup(running.pid);
  const isTold = isStop(fault) && hit && !workload.hasProcesses;
  if (isTold) longestStop = Math.max(longestStop, busy);
  const detail = `${signal} after ${moment} ms`;
  return { hit: hit && (ended.code !== 0 || hitJobs), ended, detail, isLate: isTold && busy > maxBusySeconds };
}

/** Waits for the end of a command. Returns the seconds that it used of the processor meanwhile. */
async function measureBusySeconds(/** @type {ReturnType<typeof start>} */ { pid, ended }) {
  const first = readBusySeconds(pid);
  let last = first;
  while (await Promise.race([ended.then(() => false), delay(50, true)])) last = Math.max(last, readBusySeconds(pid));
  return last - first;
}

/** Waits until no process of a group runs. npx may end before the command that it started. */
async function waitForGroup(/** @type {number} */ group) {
  for (let i = 0; i < 300 && send(-group, /** @type {NodeJS.Signals} */ (/** @type {unknown} */ (0))); i++)
    await delay(100);
}

/**
 * Resumes a workload undisturbed. Ranks outlive a killed launcher until they have saved their state. So long, a resume is
 * refused, and a user would wait.
 */
async function resume(/** @type {Workload} */ workload, /** @type {string} */ out) {
  for (let attempt = 1; ; attempt++) {
    const ended = await start(workload.getCommand(out, temper), {}).ended;
    // A rank that outlived its launcher can have begun the run meanwhile, which is then resumed.
    if (attempt === 30 || !/is writing there|already contains a run/.test(ended.stderr)) return ended;
    await delay(1000);
  }
}

/** Runs a workload undisturbed and measures it. @param {Workload} workload */
async function measureReference(workload) {
  const out = join(folder, `reference-${workload.name}`);
  const counts = join(folder, `calls-${workload.name}`);
  const started = performance.now();
  const env = { NODE_OPTIONS: `--require ${preload}`, CHAOS_COUNT: counts, CHAOS_FOLDER: out };
  const { code, stderr } = await start(workload.getCommand(out, temper), env).ended;
  if (code !== 0) throw new Error(`${workload.name} fails undisturbed: ${stderr}`);
  return { out, milliseconds: performance.now() - started, calls: readCalls(counts) };
}

mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
symlinkSync(main, join(folder, "node_modules/.bin/temper"));
await writeInputs(folder);
const selected = process.env.CHAOS_WORKLOADS?.split(",");
const all = createWorkloads(folder);
const unknown = selected?.find((name) => !all.some((workload) => workload.name === name));
if (unknown !== undefined)
  throw new Error(`CHAOS_WORKLOADS: expected ${all.map(({ name }) => name)}, received ${unknown}`);
const workloads = all.filter(({ name }) => selected?.includes(name) ?? true);
/** @type {Map<string, Reference>} */
const references = new Map();
// All but the studio work on the model of the undisturbed training.
const needed = new Set(workloads.flatMap(({ name, needs = "train" }) => (name === "studio" ? [] : ["train", needs])));
for (const workload of all.filter((each) => needed.has(each.name) || workloads.includes(each)))
  references.set(workload.name, await measureReference(workload));
console.log(`chaos: seed ${seed}, ${kills} faults, in ${folder}${hasNpx ? "" : "; npx is not installed"}`);

/** @type {Map<string, Record<string, number>>} */
const counts = new Map(workloads.map(({ name }) => [name, {}]));
/** @type {string[]} */
const failures = [];
let hits = 0;
let rounds = 0;

/** Disturbs a workload several times, resumes it, and compares it with the undisturbed one. */
async function runRound(/** @type {number} */ round) {
  const rng = new Rng(`chaos ${seed} ${round}`);
  const workload = /** @type {Workload} */ (workloads[round % workloads.length]);
  const reference = /** @type {Reference} */ (references.get(workload.name));
  const out = join(folder, `round-${round}`);
  // Few faults are spread over all workloads.
  const planned = Math.min(3 + rng.integer(4), Math.ceil(kills / workloads.length));
  /** @type {string[]} */
  const history = [];
  /** @type {(ReturnType<typeof start>)[]} */
  const trees = [];
  for (let i = 0; i < planned && hits < kills; i++) {
    const fault = /** @type {(typeof faults)[number]} */ (faults[rng.integer(faults.length)]);
    // Each resumed part is shorter than the one before.
    const left = { milliseconds: reference.milliseconds / (1 + history.length / 2), calls: reference.calls };
    const { hit, ended, detail, tree, isLate = false } = await runWithFault(workload, fault, left, out, rng);
    if (tree) trees.push(tree);
    history.push(`${fault} ${detail}${hit ? "" : " (missed)"}`);
    const bad = ended && findBadEnd(ended, isStop(fault) && !workload.hasProcesses);
    if (bad) failures.push(`${workload.name}, ${history.join("; ")}: ${bad}`);
    if (isLate) failures.push(`${workload.name}, ${history.join("; ")}: it went on for ${maxBusySeconds} s and more`);
    if (!hit) continue;
    hits++;
    const count = /** @type {Record<string, number>} */ (counts.get(workload.name));
    count[fault] = (count[fault] ?? 0) + 1;
  }
  const last = await resume(workload, out);
  for (const tree of trees) send(-tree.pid, "SIGKILL");
  const problems = [];
  if (last.code !== 0)
    problems.push(`the last resume exits with ${last.code ?? last.signal}: ${last.stderr.slice(0, 600)}`);
  else {
    for (const file of workload.listResults(reference.out)) {
      const path = join(out, file);
      if (!existsSync(path) || !readFileSync(path).equals(readFileSync(join(reference.out, file))))
        problems.push(`${file} differs`);
    }
    problems.push(...(await findBrokenFiles(out)));
    problems.push(...readdirSync(folder).filter((name) => name.endsWith(".tmp")));
  }
  for (const problem of problems) failures.push(`${workload.name} in ${out}, ${history.join("; ")}: ${problem}`);
  if (problems.length === 0) rmSync(out, { recursive: true });
  console.log(`${hits} faults, ${failures.length} failures; ${workload.name}: ${history.join("; ")}`);
}

async function runLane() {
  while (hits < kills && Date.now() < deadline) await runRound(rounds++);
}

await Promise.all(Array.from({ length: workers }, runLane));
console.log(`${hits} faults hit in ${rounds} rounds; each round was resumed and compared.`);
console.log(`After a signal, a command used the processor for at most ${longestStop.toFixed(2)} s.`);
console.log(["workload".padEnd(10), ...faults.map((fault) => fault.padStart(8)), "   total"].join(" "));
for (const [name, count] of counts) {
  const values = faults.map((fault) => count[fault] ?? 0);
  const total = values.reduce((sum, value) => sum + value, 0);
  console.log([name.padEnd(10), ...[...values, total].map((value) => String(value).padStart(8))].join(" "));
}
for (const failure of failures) console.log(`FAILED: ${failure}`);
mkdirSync(join(root, "build/chaos"), { recursive: true });
const summary = { seed, workers, faults: hits, rounds, longestStop, counts: Object.fromEntries(counts), failures };
writeFileSync(join(root, "build/chaos/summary.json"), `${JSON.stringify(summary, null, 2)}\n`);
if (failures.length === 0) rmSync(folder, { recursive: true });
process.exitCode = failures.length === 0 ? 0 : 1;
