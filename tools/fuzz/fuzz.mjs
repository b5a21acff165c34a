// make fuzz: damages small valid files and gives them to the code that reads them, for FUZZ_SECONDS,
// or until each target has read FUZZ_CASES files. FUZZ_WORKERS processes run at once. FUZZ_TARGETS
// selects targets, FUZZ_FIRST the number of the first case. Failing inputs are kept in
// tests/fixtures/fuzz, where make test repeats them. build/fuzz/summary.json has the counts.
import { fork } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { readBusySeconds } from "../read-busy-seconds.mjs";
import { formatCase, makeFiles } from "./run-case.mjs";
import { writeSeeds } from "./seeds.mjs";
import { targets } from "./targets.mjs";

const root = resolve(import.meta.dirname, "../..");
const work = join(root, "build", "fuzz");
const kept = join(root, "tests", "fixtures", "fuzz");
const cases = Number(process.env.FUZZ_CASES ?? Number.POSITIVE_INFINITY);
const seconds = Number(process.env.FUZZ_SECONDS ?? (cases < Number.POSITIVE_INFINITY ? 1e9 : 120));
const workers = Number(process.env.FUZZ_WORKERS ?? 1);
const names = process.env.FUZZ_TARGETS?.split(",") ?? Object.keys(targets);
const first = Number(process.env.FUZZ_FIRST ?? 0);
const chunkCases = 1000;
const lanesApart = 10_000_000;
const maxBytes = 3e9;
/** Of the processor in one case; and of the clock, for a case that waits for nothing. */
const [maxBusySeconds, maxWaitingSeconds] = [15, 120];

process.env.TEMPER_CACHE = join(work, "cache");
process.env.HF_HUB_OFFLINE = "1";
process.env.OMP_NUM_THREADS = "1";
const load = (path) => import(`${root}/dist/${path}.js`);
const { tryLock } = await load("base/lock");
mkdirSync(work, { recursive: true });
// Two campaigns would damage each other's files. The lock ends with this process.
const lock = tryLock(join(work, "fuzz.lock"));
if (typeof lock !== "function") {
  console.error(`${work}: process ${lock.pid} fuzzes there. Wait until it has ended.`);
  process.exit(2);
}
await writeSeeds(join(work, "seeds"), load, join(root, "tests", "fixtures"));

const started = performance.now();
const end = started + 1000 * seconds;
const summaries = new Map(names.map((name) => [name, { mutations: 0, read: 0, refused: 0, failed: 0, seconds: 0 }]));
const problems = new Map();
const queue = listChunks();
await Promise.all(Array.from({ length: workers }, (_, lane) => runLane(join(work, `lane-${lane}`))));
await printSummary();

/** Ranges of cases: as many as FUZZ_CASES needs, or one per target and worker with a part of the time. */
function listChunks() {
  if (cases === Number.POSITIVE_INFINITY)
    return names.flatMap((name) =>
      Array.from({ length: workers }, (_, lane) => ({
        name,
        number: first + lane * lanesApart,
        count: lanesApart,
        time: seconds / names.length,
      })),
    );
  // Every target has its turn, so that a campaign that runs out of time covers all of them.
  return Array.from({ length: Math.ceil(cases / chunkCases) }, (_, i) => i * chunkCases).flatMap((start) =>
    names.map((name) => ({ name, number: first + start, count: Math.min(chunkCases, cases - start), time: 1e9 })),
  );
}

/** Takes ranges from the queue and runs each, with a new process after each crash. */
async function runLane(folder) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (let chunk = queue.shift(); chunk; chunk = queue.shift()) {
    const { name, count } = chunk;
    const summary = summaries.get(name);
    const begin = performance.now();
    const stop = Math.min(end, begin + 1000 * chunk.time);
    const last = chunk.number + count;
    for (let { number } = chunk; number < last && performance.now() < stop; ) {
      const result = await runWorker(folder, name, number, last - number, (stop - performance.now()) / 1000);
      for (const failure of result.failures) addProblem(name, failure);
      summary.mutations += result.next - number;
      summary.read += result.counts.ok;
      summary.refused += result.counts.refused;
      summary.failed += result.counts.failed;
      number = result.next;
    }
    summary.seconds += (performance.now() - begin) / 1000;
  }
}

/** Groups failures by their message. */
function addProblem(name, failure) {
  const kind = `${name} ${failure.problem.split("\n").slice(0, 2).join(" ").replaceAll(/\d+/g, "#")}`;
  if (!problems.has(kind)) problems.set(kind, { name, ...failure, count: 0 });
  problems.get(kind).count++;
}

async function printSummary() {
  const total = { mutations: 0, read: 0, refused: 0, failed: 0, seconds: 0 };
  for (const summary of summaries.values()) for (const key of Object.keys(total)) total[key] += summary[key];
  const rows = [...summaries, ["total", total]];
  console.log(`first case ${first}, ${workers} ${workers === 1 ? "process" : "processes"}`);
  console.log(["target".padEnd(14), "mutations", "     read", "  refused", "   failed", "cases/s"].join(" "));
  for (const [name, { mutations, read, refused, failed, seconds: time }] of rows) {
    const numbers = [mutations, read, refused, failed].map((value) => String(value).padStart(9));
    console.log([name.padEnd(14), ...numbers, (mutations / Math.max(time, 1e-9)).toFixed(0).padStart(7)].join(" "));
  }
  const failures = [];
  for (const { name, number, problem, count } of problems.values()) {
    const path = await keep(name, number, problem.split("\n")[0]);
    failures.push({ target: name, case: number, count, problem, path });
    const lines = problem.split("\n").slice(0, 3).join("\n    ");
    console.log(`FAILED: ${name}, ${count} times, first in case ${number}: ${lines}\n  kept in ${path}`);
  }
  const path = join(work, "summary.json");
  const content = { first, workers, seconds: (performance.now() - started) / 1000, total, failures };
  writeFileSync(path, `${JSON.stringify({ ...content, targets: Object.fromEntries(summaries) }, null, 2)}\n`);
  console.log(`${total.mutations} mutations, ${total.failed} failures; ${relative(process.cwd(), path)}`);
  process.exit(total.failed > 0 ? 1 : 0);
}

/** Runs cases in a process of their own, so that a crash, a hang or a full memory ends only it. */
function runWorker(folder, name, number, count, time) {
  return new Promise((done) => {
    const current = join(folder, "current");
    rmSync(current, { force: true });
    const args = [name, number, count, time, root, folder].map(String);
    const worker = fork(join(import.meta.dirname, "worker.mjs"), args, {
      execArgv: ["--max-old-space-size=2048"],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    const failures = [];
    let finished = null;
    let reason = null;
    let seen = { text: "", since: performance.now(), busy: 0 };
    worker.on("message", (message) => {
      if (message.failure) failures.push(message.failure);
      else finished = message;
    });
    const readCurrent = () => {
      try {
        return readFileSync(current, "utf8");
      } catch {
        return "";
      }
    };
    const timer = setInterval(() => {
      const text = readCurrent();
      const busy = readBusySeconds(worker.pid);
      if (text !== seen.text) seen = { text, since: performance.now(), busy };
      if (busy - seen.busy > maxBusySeconds || performance.now() - seen.since > 1000 * maxWaitingSeconds)
        reason = "hang";
      if (readMemory(worker.pid) > maxBytes) reason = "more than 3 GB of memory";
      if (reason) worker.kill("SIGKILL");
    }, 200);
    worker.on("exit", (code, signal) => {
      clearInterval(timer);
      if (finished) return done({ failures, ...finished });
      const last = JSON.parse(readCurrent() || JSON.stringify({ number, counts: { ok: 0, refused: 0, failed: 0 } }));
      failures.push({ number: last.number, problem: reason ?? `ended with ${signal ?? `code ${code}`}` });
      done({ failures, counts: { ...last.counts, failed: last.counts.failed + 1 }, next: last.number + 1 });
    });
  });
}

function readMemory(pid) {
  try {
    return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

async function keep(name, number, problem) {
  mkdirSync(kept, { recursive: true });
  const target = await targets[name]({ seeds: join(work, "seeds"), work: join(work, `${name}-kept`), load });
  const { file, text } = formatCase(name, makeFiles(target, name, number), problem);
  writeFileSync(join(kept, file), text);
  return join("tests", "fixtures", "fuzz", file);
}
