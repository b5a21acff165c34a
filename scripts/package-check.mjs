// Checks what a user gets from npm. First an empty folder without Python, compilers and libtorch: the packed package and the
// binaries of this platform are installed, and an exported model is attacked. Then a folder with libtorch: setup, doctor,
// a prediction, the entry points and an example.
// --own-libtorch finds or installs libtorch instead of using the one of the checkout; --keep keeps the folders;
// --compile leaves the prebuilt addon out, so that setup compiles one; --onnx ends after the first folder.
import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
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

/** What the issue of the install size allows. */
const limits = { megabytes: 250, seconds: 60 };

const flag = /** @type {const} */ ({ type: "boolean", default: false });
const { values: options } = parseArgs({
  options: { "own-libtorch": flag, keep: flag, compile: flag, onnx: flag },
});
const root = resolve(import.meta.dirname, "..");
const fixtures = join(root, "tests/fixtures");
const packages = JSON.parse(readFileSync(join(root, "build/prebuilt/packages.json"), "utf8"));

/**
 * @typedef {object} Place
 * @property {string} folder
 * @property {Record<string, string | undefined>} env
 */

/** The libtorch that the checkout was built against, to save a download. */
function findLibtorch() {
  const facts = join(root, "build/native/libtorch.json");
  if (options["own-libtorch"] || process.env.LIBTORCH || !existsSync(facts)) return {};
  return { LIBTORCH: /** @type {{ path: string }} */ (JSON.parse(readFileSync(facts, "utf8"))).path };
}

/**
 * Creates a folder with links to programs of the PATH.
 * @param {string} folder
 * @param {(name: string) => boolean} isWanted
 */
function linkPrograms(folder, isWanted) {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const path of (process.env.PATH ?? "").split(delimiter))
    for (const name of existsSync(path) ? readdirSync(path) : [])
      if (isWanted(name) && !existsSync(join(bin, name)))
        try {
          symlinkSync(join(path, name), join(bin, name));
        } catch {
          // A broken link with this name came earlier on the PATH.
        }
  return bin;
}

/**
 * Runs a step and prints its duration. If it fails, its output is printed, too.
 * @param {Place} place
 * @param {string} title
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} [input] standard input
 * @returns {string} the output
 */
function runStep({ folder, env }, title, program, args, input = "") {
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

/** @param {string} name */
function createFolder(name) {
  const folder = mkdtempSync(join(tmpdir(), `temper-${name}-`));
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  return folder;
}

/**
 * @param {string} folder
 * @returns {number} bytes
 */
function measure(folder) {
  let sum = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const found = lstatSync(join(folder, name));
    if (found.isFile()) sum += found.size;
  }
  return sum;
}

/** @param {number} bytes */
const toMegabytes = (bytes) => Math.round(bytes / 1e6);

/** Installs the package with nothing but Node.js and npm on the PATH, and attacks an exported model. */
function checkWithoutLibtorch() {
  const folder = createFolder("onnx");
  // npm starts programs with sh.
  const PATH = linkPrograms(folder, (name) => ["node", "npm", "npx", "sh"].includes(name));
  const { LIBTORCH: _, TEMPER_BACKEND: __, ...rest } = process.env;
  const place = { folder, env: { ...rest, PATH, TEMPER_CACHE: join(folder, "cache") } };
  cpSync(join(fixtures, "onnx-tiny"), join(folder, "model"), { recursive: true });
  const archives = [packages.main, packages.platform];
  const install = ["install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts", ...archives];
  // A first installation fills the cache of npm.
  runStep({ ...place, folder: createFolder("cache") }, "npm install, to fill npm's cache", "npm", install);
  const start = performance.now();
  runStep(place, "npm install in an empty folder, without Python, compilers and libtorch", "npm", install);
  const text = ["--input", "the film was joy"];
  const attack = ["attack", "model", "--attack", "deepwordbug", ...text];
  const attacked = runStep(place, "npx temper attack", "npx", ["--no-install", "temper", ...attack]);
  const seconds = (performance.now() - start) / 1000;
  if (!attacked.includes("fooled")) throw new Error(`Expected an adversarial text, received:\n${attacked}`);
  console.log(attacked.trim().replace(/^/gm, "  "));
  const bytes = measure(join(folder, "node_modules"));
  const largest = listLargest(join(folder, "node_modules"));
  console.log(`  installed: ${toMegabytes(bytes)} MB (limit ${limits.megabytes}); largest: ${largest.join(", ")}`);
  console.log(`  ${seconds.toFixed(1)} s from npm install to the first adversarial text (limit ${limits.seconds})`);
  const data = ["--data", "model/reviews.tsv", "--text-column", "text", "--label-column", "label"];
  const table = ["--substitutions", "model/table.json"];
  runStep(place, "npx temper evaluate", "npx", ["--no-install", "temper", "evaluate", "model", ...data]);
  const gate = ["gate", "model", "--baseline", "model", "--max-drop", "50", "--out", "gate", ...data, ...table];
  runStep(place, "npx temper gate", "npx", ["--no-install", "temper", ...gate]);
  const train = spawnSync("npx", ["--no-install", "temper", "train", "--model", "model", "--task", "spam"], {
    ...{ cwd: folder, env: place.env, encoding: "utf8" },
  });
  if (train.status !== 2 || !/temper-nlp-demo|npx temper setup/.test(train.stderr))
    throw new Error(`Expected a message that names what train needs, received ${train.status}: ${train.stderr}`);
  console.log(`  temper train --task spam: ${train.stderr.trim()}`);
  if (!options.keep) rmSync(folder, { recursive: true, force: true });
  if (bytes > limits.megabytes * 1e6) throw new Error(`The installation has ${toMegabytes(bytes)} MB.`);
  if (seconds > limits.seconds) throw new Error(`The first adversarial text took ${seconds.toFixed(1)} s.`);
}

/**
 * The largest packages of node_modules.
 * @param {string} modules
 */
function listLargest(modules) {
  const names = readdirSync(modules)
    .filter((name) => !name.startsWith("."))
    .flatMap((name) =>
      name.startsWith("@") ? readdirSync(join(modules, name)).map((inner) => join(name, inner)) : name,
    );
  return names
    .map((name) => ({ name, bytes: measure(join(modules, name)) }))
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, 5)
    .map(({ name, bytes }) => `${name} ${toMegabytes(bytes)} MB`);
}

/** Writes the program of the guide as plain JavaScript. @param {string} folder */
function writeExample(folder) {
  const source = readFileSync(join(root, "examples/quick-start.ts"), "utf8");
  const compilerOptions = { module: typescript.ModuleKind.ESNext, target: typescript.ScriptTarget.ES2023 };
  const { outputText } = typescript.transpileModule(source, { compilerOptions });
  writeFileSync(join(folder, "quick-start.mjs"), outputText);
}

/** Copies a classifier of a few thousand weights. @param {string} folder */
function writeModel(folder) {
  mkdirSync(join(folder, "model"));
  for (const name of ["config.json", "model.safetensors"])
    cpSync(join(fixtures, "families/bert", name), join(folder, "model", name));
  cpSync(join(fixtures, "bert-tiny/tokenizer.json"), join(folder, "model/tokenizer.json"));
}

/** Installs the package and the data of the demo, sets libtorch up without compilers, and runs it. */
function checkWithLibtorch() {
  const folder = createFolder("package");
  const isCompiler =
    /^(cc|c\+\+|c89|c99|cpp|gcc|g\+\+|clang|clang\+\+|cmake|ninja|make|as|ld|.*-linux-gnu-.*)([-.\d]*)$/;
  const PATH = options.compile ? process.env.PATH : linkPrograms(folder, (name) => !isCompiler.test(name));
  const place = { folder, env: { ...process.env, ...findLibtorch(), PATH } };
  writeModel(folder);
  const archives = [packages.main, packages.platform, packages.demo];
  const start = performance.now();
  runStep(place, "npm install with the data of the demo", "npm", ["install", "--no-audit", "--no-fund", ...archives]);
  if (options.compile) rmSync(join(folder, "node_modules", packages.name, "temper.node"));
  runStep(place, "npx temper setup", "npx", ["--no-install", "temper", "setup"]);
  const predict = ["--no-install", "temper", "predict", "model"];
  const predicted = runStep(place, "npx temper predict", "npx", predict, "a quiet film\n");
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`  ${predicted.trim()}\n  ${seconds} s from npm install to the first prediction`);
  const facts = JSON.parse(readFileSync(join(folder, "node_modules/temper-nlp/build/native/libtorch.json"), "utf8"));
  if (facts.prebuilt === options.compile)
    throw new Error(`Expected ${options.compile ? "a compiled" : "the prebuilt"} addon, found the other one.`);
  const doctor = runStep(place, "npx temper doctor", "npx", ["--no-install", "temper", "doctor"]);
  console.log(doctor.trim().replace(/^/gm, "  "));
  const entryPoints = ["", "/methods", "/attacks", "/tensor", "/nn", "/analysis"].map((path) => `temper-nlp${path}`);
  const imports = entryPoints.map((path) => `await import("${path}");`).join("");
  runStep(place, `import ${entryPoints.join(", ")}`, process.execPath, ["--input-type=module", "--eval", imports]);
  writeExample(folder);
  const printed = runStep(place, "examples/quick-start.ts", process.execPath, ["quick-start.mjs"]);
  console.log(printed.trim().split("\n").slice(-3).join("\n").replace(/^/gm, "  "));
  if (options.keep) console.log(`The folder is ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
}

console.log(`${packages.main}\n${packages.platform}: its addon needs glibc ${packages.minGlibc ?? "(it has none)"}`);
const listed = execFileSync("tar", ["-tzf", packages.main], { encoding: "utf8" }).split("\n");
const unwanted = listed.filter((path) => /^package\/(tests|build|runs|packages)\//.test(path));
if (unwanted.length > 0) throw new Error(`These files must not be in the package: ${unwanted.join(", ")}`);
checkWithoutLibtorch();
if (!options.onnx) checkWithLibtorch();
console.log("The installed package works.");
