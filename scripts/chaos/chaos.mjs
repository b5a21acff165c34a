// Kills training, attacks, sweeps and analyses at random moments, and lets their files fail. After
// each kill the work is resumed. In the end it must be bitwise identical to an undisturbed one, and
// no file may be half-written. CHAOS_KILLS, CHAOS_SEED and CHAOS_SECONDS change the extent.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openSafetensors } from "../../dist/models/safetensors.js";
import { Rng } from "../../dist/tensor/random.js";
import { createWorkloads, writeInputs } from "./workloads.mjs";

/** @typedef {import("./workloads.mjs").Workload} Workload */
/** @typedef {{ code: number | null, signal: string | null, stderr: string }} Ended */

const kills = Number(process.env.CHAOS_KILLS ?? 200);
const seed = process.env.CHAOS_SEED ?? String(Date.now());
const deadline = Date.now() + 1000 * Number(process.env.CHAOS_SECONDS ?? 3600);
const main = resolve("dist/cli/main.js");
const preload = resolve("scripts/chaos/fail-files.cjs");
const folder = mkdtempSync(join(tmpdir(), "temper-chaos-"));
const rng = new Rng(`chaos ${seed}`);
const faults = /** @type {const} */ (["SIGKILL", "SIGTERM", "SIGINT", "ENOSPC", "EIO", "npx", "zombie"]);

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
    env: { ...process.env, TEMPER_CACHE: join(folder, "cache"), ...env },
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
 * @param {readonly string[]} args
 * @param {(typeof faults)[number]} fault
 * @param {{ milliseconds: number, calls: number }} reference
 * @param {string} out
 */
async function runWithFault(args, fault, reference, out) {
  const moment = 150 + rng.integer(Math.ceil(reference.milliseconds));
  if (fault === "ENOSPC" || fault === "EIO") {
    const call = 1 + rng.integer(reference.calls);
    const env = { NODE_OPTIONS: `--require ${preload}`, CHAOS_FAIL: `${fault}:${call}`, CHAOS_FOLDER: out };
    const ended = await start([process.execPath, main, ...args], env).ended;
    return { hit: ended.code !== 0, ended, detail: `call ${call}` };
  }
  if (fault === "zombie") {
    // The shell becomes a program that never reaps its child, like a container without an init.
    const command = `"$@" & echo $!; exec sleep 600`;
    const tree = start(["sh", "-c", command, "sh", process.execPath, main, ...args], {});
    await delay(moment);
    const pid = Number(tree.getOutput().split("\n")[0]);
    const isZombie = /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    if (isZombie) {
      send(-tree.pid, "SIGKILL");
      await tree.ended;
      return { hit: false, ended: null, detail: "ended before the kill" };
    }
    send(pid, "SIGKILL");
    return { hit: true, ended: null, detail: `after ${moment} ms`, tree };
  }
  const command = fault === "npx" ? ["npx", "--no-install", "temper", ...args] : [process.execPath, main, ...args];
  const running = start(command, {});
  await Promise.race([delay(moment + (fault === "npx" ? 500 : 0)), running.ended]);
  // A terminal and a scheduler signal the whole group.
  const signal = fault === "npx" ? (rng.next() < 0.5 ? "SIGKILL" : "SIGINT") : fault;
  const hit = send(-running.pid, signal);
  const ended = await running.ended;
  await waitForGroup(running.pid);
  return { hit: hit && ended.code !== 0, ended, detail: `${signal} after ${moment} ms` };
}

/** Waits until no process of a group runs. npx may end before the command that it started. */
async function waitForGroup(/** @type {number} */ group) {
  for (let i = 0; i < 300 && send(-group, /** @type {NodeJS.Signals} */ (/** @type {unknown} */ (0))); i++)
    await delay(100);
}

/** Lists the files of a folder that are incomplete, abandoned or not what their name says. */
async function findBrokenFiles(/** @type {string} */ out) {
  /** @type {string[]} */
  const broken = [];
  for (const name of readdirSync(out, { recursive: true, encoding: "utf8" })) {
    const path = join(out, name);
    if (!statSync(path).isFile()) continue;
    if (/(^|\/)\..*\.tmp$|\.writing-|damaged-/.test(name)) broken.push(`${name} is left over`);
    try {
      if (name.endsWith(".json")) JSON.parse(readFileSync(path, "utf8"));
      if (name.endsWith(".safetensors")) await (await openSafetensors(path)).close();
      if (name.endsWith(".jsonl"))
        for (const line of readFileSync(path, "utf8").trimEnd().split("\n")) JSON.parse(line);
      if (name.endsWith(".jsonl") && !readFileSync(path, "utf8").endsWith("\n")) broken.push(`${name} is incomplete`);
    } catch (error) {
      broken.push(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return broken;
}

/** An error that a user could not act on, or an exit code that no fault explains. @param {Ended} ended */
function findBadEnd({ code, signal, stderr }) {
  if (signal !== null && signal !== "SIGKILL" && signal !== "SIGTERM" && signal !== "SIGINT") return `signal ${signal}`;
  if (/This is a bug|^\s+at .*:\d+:\d+/m.test(stderr)) return `raw error: ${stderr.slice(0, 600)}`;
  return [0, 1, 2, 130, 137, 143, null].includes(code) ? null : `exit code ${code}: ${stderr.slice(0, 300)}`;
}

/** Runs a workload undisturbed and measures it. @param {Workload} workload */
async function measureReference(workload) {
  const out = join(folder, `reference-${workload.name}`);
  const counts = join(folder, `calls-${workload.name}`);
  const started = performance.now();
  const env = { NODE_OPTIONS: `--require ${preload}`, CHAOS_COUNT: counts, CHAOS_FOLDER: out };
  const { code, stderr } = await start([process.execPath, main, ...workload.getArguments(out)], env).ended;
  if (code !== 0) throw new Error(`${workload.name} fails undisturbed: ${stderr}`);
  return { out, milliseconds: performance.now() - started, calls: readCalls(counts) };
}

mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
symlinkSync(main, join(folder, "node_modules/.bin/temper"));
await writeInputs(folder);
const workloads = createWorkloads(folder);
/** @type {Map<string, Awaited<ReturnType<typeof measureReference>>>} */
const references = new Map();
for (const workload of workloads) references.set(workload.name, await measureReference(workload));
console.log(`chaos: seed ${seed}, ${kills} faults, in ${folder}`);

/** @type {Map<string, number>} */
const counts = new Map();
/** @type {string[]} */
const failures = [];
let hits = 0;
let rounds = 0;
for (; hits < kills && Date.now() < deadline; rounds++) {
  const workload = /** @type {Workload} */ (workloads[rounds % workloads.length]);
  const reference = /** @type {NonNullable<ReturnType<typeof references.get>>} */ (references.get(workload.name));
  const out = join(folder, `round-${rounds}`);
  const planned = 3 + rng.integer(4);
  /** @type {string[]} */
  const history = [];
  /** @type {(ReturnType<typeof start>)[]} */
  const trees = [];
  for (let i = 0; i < planned && hits < kills; i++) {
    const fault = /** @type {(typeof faults)[number]} */ (faults[rng.integer(faults.length)]);
    const { hit, ended, detail, tree } = await runWithFault(workload.getArguments(out), fault, reference, out);
    if (tree) trees.push(tree);
    history.push(`${fault} ${detail}${hit ? "" : " (missed)"}`);
    const bad = ended && findBadEnd(ended);
    if (bad) failures.push(`${workload.name}, ${history.join("; ")}: ${bad}`);
    if (!hit) continue;
    hits++;
    counts.set(`${workload.name} ${fault}`, (counts.get(`${workload.name} ${fault}`) ?? 0) + 1);
  }
  const last = await start([process.execPath, main, ...workload.getArguments(out)], {}).ended;
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
  }
  for (const problem of problems) failures.push(`${workload.name} in ${out}, ${history.join("; ")}: ${problem}`);
  if (problems.length === 0) rmSync(out, { recursive: true });
  console.log(`${hits} faults, ${failures.length} failures; ${workload.name}: ${history.join("; ")}`);
}
console.log(`${hits} faults hit in ${rounds} rounds; each round was resumed and compared.`);
for (const [name, count] of [...counts].sort()) console.log(`  ${name}: ${count}`);
for (const failure of failures) console.log(`FAILED: ${failure}`);
if (failures.length === 0) rmSync(folder, { recursive: true });
process.exitCode = failures.length === 0 ? 0 : 1;
