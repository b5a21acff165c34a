// make fuzz: damages small valid files and gives them to the code that reads them, for FUZZ_SECONDS.
// FUZZ_TARGETS selects targets, FUZZ_FIRST the number of the first case. Failing inputs are kept in
// tests/fixtures/fuzz, where make test repeats them.
import { fork } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { formatCase, makeFiles } from "./run-case.mjs";
import { writeSeeds } from "./seeds.mjs";
import { targets } from "./targets.mjs";

const root = resolve(import.meta.dirname, "../..");
const work = join(root, "build", "fuzz");
const kept = join(root, "tests", "fixtures", "fuzz");
const seconds = Number(process.env.FUZZ_SECONDS ?? 120);
const names = process.env.FUZZ_TARGETS?.split(",") ?? Object.keys(targets);
const first = Number(process.env.FUZZ_FIRST ?? 0);
const maxBytes = 3e9;
const hangMilliseconds = 15_000;

process.env.TEMPER_CACHE = join(work, "cache");
process.env.HF_HUB_OFFLINE = "1";
process.env.OMP_NUM_THREADS = "1";
const load = (path) => import(`${root}/dist/${path}.js`);
await writeSeeds(join(work, "seeds"), load, join(root, "tests", "fixtures"));

let failures = 0;
let total = 0;
for (const name of names) {
  const summary = { cases: 0, ok: 0, refused: 0, failed: 0 };
  const end = performance.now() + (1000 * seconds) / names.length;
  let number = first;
  const problems = new Map();
  while (performance.now() < end) {
    const result = await runWorker(name, number, (end - performance.now()) / 1000);
    for (const failure of result.failures) {
      const kind = failure.problem.split("\n").slice(0, 2).join(" ").replaceAll(/\d+/g, "#");
      if (!problems.has(kind)) problems.set(kind, { ...failure, count: 0 });
      problems.get(kind).count++;
    }
    for (const key of ["ok", "refused", "failed"]) summary[key] += result.counts[key];
    summary.cases += result.next - number;
    number = result.next;
  }
  total += summary.cases;
  failures += summary.failed;
  const { cases, ok, refused, failed } = summary;
  console.log(`${name}: cases ${first} to ${first + cases - 1}: ${ok} accepted, ${refused} refused, ${failed} failed`);
  for (const { number: at, problem, count } of problems.values()) {
    const path = await keep(name, at, problem.split("\n")[0]);
    console.log(
      `  ${count} times, first in case ${at}: ${problem.split("\n").slice(0, 3).join("\n    ")}\n  kept in ${path}`,
    );
  }
}
console.log(`${total} mutations, ${failures} failures`);
process.exit(failures > 0 ? 1 : 0);

/** Runs cases in a process of their own, so that a crash, a hang or a full memory ends only it. */
function runWorker(name, number, time) {
  return new Promise((done) => {
    const args = [name, String(number), String(time), root, work];
    const worker = fork(join(import.meta.dirname, "worker.mjs"), args, {
      execArgv: ["--max-old-space-size=2048"],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    const failures = [];
    let finished = null;
    let reason = null;
    let seen = { text: "", since: performance.now() };
    worker.on("message", (message) => {
      if (message.failure) failures.push(message.failure);
      else finished = message;
    });
    const readCurrent = () => {
      try {
        return readFileSync(join(work, `${name}.current`), "utf8");
      } catch {
        return "";
      }
    };
    const timer = setInterval(() => {
      const text = readCurrent();
      if (text !== seen.text) seen = { text, since: performance.now() };
      if (performance.now() - seen.since > hangMilliseconds) reason = "hang";
      if (readMemory(worker.pid) > maxBytes) reason = "more than 3 GB of memory";
      if (reason) worker.kill("SIGKILL");
    }, 200);
    worker.on("exit", (code, signal) => {
      clearInterval(timer);
      if (finished) return done({ failures, ...finished });
      const at = Math.max(number, Number(readCurrent()));
      failures.push({ number: at, problem: reason ?? `ended with ${signal ?? `code ${code}`}` });
      done({ failures, counts: { ok: 0, refused: at - number, failed: 1 }, next: at + 1 });
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
