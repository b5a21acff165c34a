// Checks what a user gets from npm: installs the packed package and its prebuilt addon in an empty folder, without a
// compiler on the PATH, runs setup and doctor there, classifies a text, and runs an example.
// --own-libtorch finds or installs libtorch instead of using the one of the checkout; --keep keeps the folder;
// --compile leaves the prebuilt addon out, so that setup compiles one.
import { spawnSync } from "node:child_process";
import {
  cpSync,
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
import { delimiter, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import typescript from "typescript";

const flag = /** @type {const} */ ({ type: "boolean", default: false });
const { values: options } = parseArgs({ options: { "own-libtorch": flag, keep: flag, compile: flag } });
const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "temper-package-"));
const env = { ...process.env, ...findLibtorch(), ...(!options.compile && { PATH: linkPrograms() }) };

/** The libtorch that the checkout was built against, to save a download. */
function findLibtorch() {
  const facts = join(root, "build/native/libtorch.json");
  if (options["own-libtorch"] || process.env.LIBTORCH || !existsSync(facts)) return {};
  return { LIBTORCH: /** @type {{ path: string }} */ (JSON.parse(readFileSync(facts, "utf8"))).path };
}

/** Creates a folder with links to all programs of the PATH except compilers and CMake. */
function linkPrograms() {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  const isCompiler =
    /^(cc|c\+\+|c89|c99|cpp|gcc|g\+\+|clang|clang\+\+|cmake|ninja|make|as|ld|.*-linux-gnu-.*)([-.\d]*)$/;
  for (const path of (process.env.PATH ?? "").split(delimiter))
    for (const name of existsSync(path) ? readdirSync(path) : [])
      if (!isCompiler.test(name) && !existsSync(join(bin, name)))
        try {
          symlinkSync(join(path, name), join(bin, name));
        } catch {
          // A broken link with this name came earlier on the PATH.
        }
  return bin;
}

/**
 * Runs a step and prints its duration. If it fails, its output is printed, too.
 * @param {string} title
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} [input] standard input
 * @returns {string} the output
 */
function runStep(title, program, args, input = "") {
  process.stdout.write(`${title} … `);
  const start = performance.now();
  const result = spawnSync(program, args, { cwd: folder, env, input, encoding: "utf8", maxBuffer: 1 << 26 });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const { status, stdout, stderr, error } = result;
  if (status === 0) {
    console.log(`ok (${seconds} s)`);
    return stdout;
  }
  const output = `${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}`;
  console.log(`failed after ${seconds} s\n\n$ ${program} ${args.join(" ")}\n${output}`);
  console.log(`The folder is ${folder}`);
  process.exit(1);
}

/** Writes the program of the guide as plain JavaScript. */
function writeExample() {
  const source = readFileSync(join(root, "examples/quick-start.ts"), "utf8");
  const compilerOptions = { module: typescript.ModuleKind.ESNext, target: typescript.ScriptTarget.ES2023 };
  const { outputText } = typescript.transpileModule(source, { compilerOptions });
  writeFileSync(join(folder, "quick-start.mjs"), outputText);
}

/** Copies a classifier of a few thousand weights. */
function writeModel() {
  const fixtures = join(root, "tests/fixtures");
  mkdirSync(join(folder, "model"));
  for (const name of ["config.json", "model.safetensors"])
    cpSync(join(fixtures, "families/bert", name), join(folder, "model", name));
  cpSync(join(fixtures, "bert-tiny/tokenizer.json"), join(folder, "model/tokenizer.json"));
}

const packages = JSON.parse(readFileSync(join(root, "build/prebuilt/packages.json"), "utf8"));
console.log(`${packages.main}\n${packages.addon}: needs glibc ${packages.minGlibc}`);
const listed = spawnSync("tar", ["-tzf", packages.main], { encoding: "utf8" }).stdout.split("\n");
const unwanted = listed.filter((path) => /^package\/(tests|build|runs)\//.test(path));
if (unwanted.length > 0) throw new Error(`These files must not be in the package: ${unwanted.join(", ")}`);

writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
writeModel();
const archives = [packages.main, ...(options.compile ? [] : [packages.addon])];
const start = performance.now();
runStep("npm install in an empty folder", "npm", ["install", "--no-audit", "--no-fund", ...archives]);
runStep("npx temper setup", "npx", ["--no-install", "temper", "setup"]);
const predicted = runStep(
  "npx temper predict",
  "npx",
  ["--no-install", "temper", "predict", "model"],
  "a quiet film\n",
);
const seconds = ((performance.now() - start) / 1000).toFixed(1);
console.log(`  ${predicted.trim()}\n  ${seconds} s from npm install to the first prediction`);
const facts = JSON.parse(readFileSync(join(folder, "node_modules/temper-nlp/build/native/libtorch.json"), "utf8"));
if (facts.prebuilt === options.compile)
  throw new Error(`Expected ${options.compile ? "a compiled" : "the prebuilt"} addon, found the other one.`);
const doctor = runStep("npx temper doctor", "npx", ["--no-install", "temper", "doctor"]);
console.log(doctor.trim().replace(/^/gm, "  "));
const entryPoints = ["", "/methods", "/attacks", "/tensor", "/nn", "/analysis"].map((path) => `temper-nlp${path}`);
const imports = entryPoints.map((path) => `await import("${path}");`).join("");
runStep(`import ${entryPoints.join(", ")}`, process.execPath, ["--input-type=module", "--eval", imports]);
writeExample();
const printed = runStep("examples/quick-start.ts", process.execPath, ["quick-start.mjs"]);
console.log(printed.trim().split("\n").slice(-3).join("\n").replace(/^/gm, "  "));
if (options.keep) console.log(`The folder is ${folder}`);
else rmSync(folder, { recursive: true, force: true });
console.log("The installed package works.");
