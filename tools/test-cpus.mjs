// `make test-cpus`: runs the tests that touch numbers as other processors would: with other instructions, with other
// numbers of threads, and with last bits that native/binding/jitter.cc moves. The exit code is 1 if a test fails.
//   node tools/test-cpus.mjs [SETTING…] [TEST FILE OR FOLDER…]
// A setting is one of the list below, threads-N or jitter-N. Default: all of the list. A setting takes some minutes.
// build/test-cpus has the results of each.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { listNumericTests } from "./cpus/list-tests.mjs";
import { formatRepeatCommand } from "./cpus/repeat-command.mjs";

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "build/test-cpus");

const named = {
  "aten-default": { ATEN_CPU_CAPABILITY: "default" },
  "aten-avx2": { ATEN_CPU_CAPABILITY: "avx2" },
  "onednn-sse41": { ONEDNN_MAX_CPU_ISA: "SSE41" },
  "onednn-avx2": { ONEDNN_MAX_CPU_ISA: "AVX2" },
  "mkl-compatible": { MKL_CBWR: "COMPATIBLE" },
};
const numbered = (kind, count) => Array.from({ length: count }, (_, i) => `${kind}-${i + 1}`);
const defaults = [...Object.keys(named), ...numbered("threads", 3), ...numbered("jitter", 10)];

/** The variables of a setting, or null if there is none of this name. */
function findVariables(name) {
  const [, kind, number] = /^(threads|jitter)-(\d+)$/.exec(name) ?? [];
  if (kind === "threads" && Number(number) > 0) return { OMP_NUM_THREADS: number };
  return kind === "jitter" ? { TEMPER_JITTER: number } : (named[name] ?? null);
}

function fail(message) {
  console.error(message);
  process.exit(2);
}

const args = process.argv.slice(2);
const [settings, paths] = [args.filter((arg) => findVariables(arg)), args.filter((arg) => !findVariables(arg))];
const unknown = paths.find((path) => !existsSync(join(root, path)));
if (unknown !== undefined)
  fail(`${unknown}: expected a test file, a folder of tests, threads-N, jitter-N or one of: ${defaults.join(", ")}`);
const isWithin = (file, path) => file === path || file.startsWith(`${path.replace(/\/$/, "")}/`);
const files = listNumericTests().filter((file) => paths.length === 0 || paths.some((path) => isWithin(file, path)));
if (files.length === 0) fail(`${paths.join(", ")}: no test there touches numbers. Name others, or none for all.`);

mkdirSync(folder, { recursive: true });
const names = settings.length > 0 ? settings : defaults;
console.log(
  `${files.length} test files, ${names.length} settings, results in ${relative(process.cwd(), folder) || "."}`,
);
const rows = names.map(runSetting);
printSummary();
process.exitCode = rows.every(({ status }) => status === 0) ? 0 : 1;

/** Runs the tests with the variables of a setting. */
function runSetting(name, i) {
  console.log(`[${i + 1}/${names.length}] ${name}`);
  const variables = findVariables(name);
  const results = join(folder, `${name}.json`);
  rmSync(results, { force: true });
  const started = performance.now();
  const reporters = ["--reporter=dot", "--reporter=json", `--outputFile.json=${results}`];
  const { status, signal } = spawnSync(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), "run", ...files, ...reporters],
    { cwd: root, env: { ...process.env, ...variables }, stdio: "inherit" },
  );
  const seconds = (performance.now() - started) / 1000;
  return { name, variables, status: status ?? signal, seconds, ...readResults(results) };
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
  const printRow = (name, ...cells) =>
    console.log([name.padEnd(16), ...cells.map((cell) => String(cell).padStart(8))].join(" "));
  printRow("setting", "passed", "failed", "seconds");
  for (const { name, passed, failed, seconds } of rows) printRow(name, passed, failed.length, seconds.toFixed(0));
  for (const { name, variables, failed, status } of rows) {
    if (status === 0) continue;
    console.log(`\n${name}:`);
    if (failed.length === 0) console.log(`  Vitest ended with ${status}. Its output is above.`);
    for (const { file, names: test } of failed) console.log(`  ${formatRepeatCommand(variables, file, test)}`);
  }
}
