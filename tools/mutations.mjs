// `make check-mutations`: plants mistakes of tools/mutations/list.mjs, one at a time, in a copy of the repository, and
// runs the tests that must find each, with moved last bits (native/binding/jitter.cc). A mistake that no test finds shows
// a tolerance that is too large or a test that is missing. The exit code is 1 if there is one.
//   node tools/mutations.mjs [PART OF A NAME…]
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import ts from "typescript";
import { mutations } from "./mutations/list.mjs";

const root = resolve(import.meta.dirname, "..");
/** What is copied: the sources, and all that finds them by a path of its own. The rest is linked. */
const copied = ["dist", "src", "tests", "tools", "package.json", "tsconfig.json", "vitest.config.ts"];
const jitterSeed = "1";

const words = process.argv.slice(2);
const chosen = mutations.filter(({ name, file }) => words.every((word) => `${file}: ${name}`.includes(word)));
if (chosen.length === 0) {
  console.error(`No mutation has "${words.join(" ")}" in its name. Their names are in tools/mutations/list.mjs.`);
  process.exit(2);
}
for (const { name, file, find } of chosen) {
  const count = readFileSync(join(root, "src", file), "utf8").split(find).length - 1;
  if (count === 1) continue;
  console.error(`${name}: expected the text to replace once in src/${file}, found it ${count} times:\n${find}`);
  process.exit(2);
}

const copy = mkdtempSync(join(tmpdir(), "temper-mutations-"));
process.once("exit", () => rmSync(copy, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
for (const name of readdirSync(root)) {
  // preserveTimestamps: the tests rebuild what is older than its source.
  if (copied.includes(name)) cpSync(join(root, name), join(copy, name), { recursive: true, preserveTimestamps: true });
  else symlinkSync(join(root, name), join(copy, name));
}

const tests = [...new Set(chosen.flatMap((mutation) => mutation.tests))];
console.log(`${chosen.length} mutations, ${tests.length} test files. First the tests without a mutation:`);
const clean = runTests(tests, []);
if (clean.failed.length > 0 || clean.status !== 0) {
  console.error(`They fail, so they show nothing:\n${clean.failed.join("\n") || clean.output}`);
  process.exit(1);
}
console.log("they pass");

let survivors = 0;
for (const [i, mutation] of chosen.entries()) {
  const found = plant(mutation, () => runTests(mutation.tests, ["--bail=1"]));
  const isFound = found.status !== 0;
  if (!isFound) survivors++;
  const by = isFound ? (found.failed[0] ?? `an error: ${found.output.trim().split("\n").at(-1)}`) : "NOT FOUND";
  console.log(`[${i + 1}/${chosen.length}] ${mutation.name} (src/${mutation.file}): ${by}`);
}
console.log(`${chosen.length - survivors} of ${chosen.length} mutations were found`);
process.exitCode = survivors === 0 ? 0 : 1;

/** Changes a source and its compiled file, and restores both after the action. */
function plant({ file, find, replace }, action) {
  const source = join(copy, "src", file);
  const compiled = join(copy, "dist", file.replace(/\.ts$/, ".js"));
  const before = [source, compiled].map((path) => readFileSync(path));
  const mutated = before[0].toString().replace(find, () => replace);
  const { options } = ts.convertCompilerOptionsFromJson(
    ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile).config.compilerOptions,
    root,
  );
  const { outputText } = ts.transpileModule(mutated, {
    fileName: source,
    compilerOptions: { ...options, module: ts.ModuleKind.ESNext, moduleResolution: undefined, noEmit: false },
  });
  writeFileSync(source, mutated);
  writeFileSync(compiled, outputText);
  try {
    return action();
  } finally {
    writeFileSync(source, before[0]);
    writeFileSync(compiled, before[1]);
  }
}

/** Runs tests in the copy. Returns the names of those that failed. */
function runTests(files, options) {
  const results = join(copy, "results.json");
  rmSync(results, { force: true });
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      join(copy, "node_modules/vitest/vitest.mjs"),
      ...["run", ...files, ...options, "--reporter=json", `--outputFile=${results}`],
    ],
    { cwd: copy, encoding: "utf8", env: { ...process.env, TEMPER_JITTER: jitterSeed } },
  );
  const { testResults } = existsSync(results) ? JSON.parse(readFileSync(results, "utf8")) : { testResults: [] };
  const failed = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter((each) => each.status === "failed")
      .map(({ fullName }) => `${relative(copy, name)} > ${fullName}`),
  );
  return { status, failed, output: stdout + stderr };
}
