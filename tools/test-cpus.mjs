// `make test-cpus`: runs the tests that touch numbers as other processors would: with other instructions, with other
// numbers of threads, and with last bits that native/binding/jitter.cc moves. The exit code is 1 if a test fails.
//   node tools/test-cpus.mjs [SETTING…] [TEST FILE OR FOLDER…]
// A setting is one of the list below, threads-N or jitter-N. Default: all of the list. A setting takes some minutes.
// build/test-cpus has a log and the results of each.
import { spawn } from "node:child_process";
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { listNumericTests } from "./cpus/list-tests.mjs";
import { formatRepeatCommand } from "./cpus/repeat-command.mjs";

const root = resolve(import.meta.dirname, "..");
const logs = join(root, "build/test-cpus");
const jitterSeeds = Array.from({ length: 10 }, (_, i) => i + 1);

const named = {
  "aten-default": { ATEN_CPU_CAPABILITY: "default" },
  "aten-avx2": { ATEN_CPU_CAPABILITY: "avx2" },
  "onednn-sse41": { ONEDNN_MAX_CPU_ISA: "SSE41" },
  "onednn-avx2": { ONEDNN_MAX_CPU_ISA: "AVX2" },
  "mkl-compatible": { MKL_CBWR: "COMPATIBLE" },
};
const defaults = [
  ...Object.keys(named),
  "threads-1",
  "threads-2",
  "threads-3",
  ...jitterSeeds.map((n) => `jitter-${n}`),
];

/** The variables of a setting, or null if there is none of this name. */
function findVariables(name) {
  const [, kind, number] = /^(threads|jitter)-(\d+)$/.exec(name) ?? [];
  if (kind === "threads" && Number(number) > 0) return { OMP_NUM_THREADS: number };
  return kind === "jitter" ? { TEMPER_JITTER: number } : (named[name] ?? null);
}

const args = process.argv.slice(2);
const [settings, paths] = [args.filter((arg) => findVariables(arg)), args.filter((arg) => !findVariables(arg))];
const unknown = paths.find((path) => !existsSync(join(root, path)));
if (unknown !== undefined) {
  console.error(
    `${unknown}: expected a test file, a folder of tests, threads-N, jitter-N or one of: ${defaults.join(", ")}`,
  );
  process.exit(2);
}
const isWithin = (file, path) => file === path || file.startsWith(`${path.replace(/\/$/, "")}/`);
const files = listNumericTests().filter((file) => paths.length === 0 || paths.some((path) => isWithin(file, path)));
if (files.length === 0) {
  console.error(`${paths.join(", ")}: no test there touches numbers. Name others, or none for all.`);
  process.exit(2);
}

mkdirSync(logs, { recursive: true });
const names = settings.length > 0 ? settings : defaults;
console.log(`${files.length} test files, ${names.length} settings, logs in ${relative(process.cwd(), logs) || "."}`);
const rows = [];
for (const [i, name] of names.entries()) rows.push(await runSetting(name, `[${i + 1}/${names.length}] ${name}`));
printSummary();
process.exitCode = rows.every(({ status }) => status === 0) ? 0 : 1;

/** Runs the tests with the variables of a setting. The terminal shows how far it is; the log has what Vitest prints. */
async function runSetting(name, title) {
  const variables = findVariables(name);
  const [log, results] = [join(logs, `${name}.log`), join(logs, `${name}.json`)];
  rmSync(results, { force: true });
  const started = performance.now();
  const reporters = ["default", "json"].map((reporter) => `--reporter=${reporter}`);
  const child = spawn(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), "run", ...files, ...reporters, `--outputFile.json=${results}`],
    { cwd: root, env: { ...process.env, ...variables }, stdio: ["ignore", "pipe", "pipe"] },
  );
  const stream = createWriteStream(log);
  const report = createProgress(title);
  for (const output of [child.stdout, child.stderr]) {
    output.on("data", (chunk) => {
      const text = stripVTControlCharacters(chunk.toString());
      stream.write(text);
      report.read(text);
    });
  }
  const status = await new Promise((done) => child.once("close", (code, signal) => done(code ?? signal)));
  await new Promise((done) => stream.end(done));
  report.end();
  const row = { name, variables, log, status, seconds: (performance.now() - started) / 1000, ...readResults(results) };
  console.log(`${title}: ${row.passed} passed, ${row.failed.length} failed, ${row.seconds.toFixed(0)} s`);
  return row;
}

/** Shows the number of finished files, and the last of them: on a terminal in one line, otherwise once per minute. */
function createProgress(title) {
  const started = performance.now();
  let [done, last, rest] = [0, "", ""];
  const format = () =>
    `${title}: ${done} of ${files.length} files, ${((performance.now() - started) / 60_000).toFixed(1)} min ${last}`;
  const show = () => {
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${format().slice(0, (process.stdout.columns ?? 80) - 1)}`);
    else console.log(format());
  };
  const timer = setInterval(show, process.stdout.isTTY ? 1000 : 60_000);
  const read = (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const [, file] = /^ *[✓❯×↓] .*?(\S+\.test\.ts) \(/.exec(line) ?? [];
      if (file === undefined) continue;
      done++;
      last = file;
    }
  };
  const end = () => {
    clearInterval(timer);
    if (process.stdout.isTTY) process.stdout.write("\r\x1b[K");
  };
  return { read, end };
}

/** What Vitest's JSON reporter wrote. There is no file if Vitest itself ended early. */
function readResults(path) {
  if (!existsSync(path)) return { passed: 0, failed: [] };
  const { numPassedTests, testResults } = JSON.parse(readFileSync(path, "utf8"));
  const failed = files.flatMap((file) => {
    const found = testResults.find(({ name }) => relative(root, name) === file);
    const results = found?.assertionResults ?? [];
    const tests = results.filter((each) => each.status === "failed");
    // A file may fail before its tests, or crash and have no results.
    if (tests.length === 0) return found?.status === "failed" || results.length === 0 ? [{ file, names: [] }] : [];
    return tests.map(({ ancestorTitles, title }) => ({ file, names: [...ancestorTitles, title] }));
  });
  return { passed: numPassedTests, failed };
}

function printSummary() {
  const width = Math.max(...rows.map(({ name }) => name.length), "setting".length);
  const format = (...cells) =>
    [cells[0].padEnd(width), ...cells.slice(1).map((cell) => String(cell).padStart(8))].join(" ");
  console.log(`\n${format("setting", "passed", "failed", "seconds")}`);
  for (const { name, passed, failed, seconds } of rows)
    console.log(format(name, passed, failed.length, seconds.toFixed(0)));
  for (const { name, variables, failed, status, log } of rows) {
    if (status === 0) continue;
    console.log(`\n${name}: ${relative(process.cwd(), log)}`);
    if (failed.length === 0) console.log(`  Vitest ended with ${status}. The log says why.`);
    for (const { file, names: test } of failed) console.log(`  ${formatRepeatCommand(variables, file, test)}`);
  }
}
