// Checks what a user gets from npm: packs the package, installs it in an empty folder, runs setup and doctor there, and runs an
// example. --own-libtorch finds or installs libtorch instead of using the one of the checkout; --keep keeps the folder.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import typescript from "typescript";

const { values: options } = parseArgs({
  options: { "own-libtorch": { type: "boolean", default: false }, keep: { type: "boolean", default: false } },
});
const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "temper-package-"));
const env = { ...process.env, ...findLibtorch() };

/** The libtorch that the checkout was built against, to save a download. */
function findLibtorch() {
  const facts = join(root, "build/native/libtorch.json");
  if (options["own-libtorch"] || process.env.LIBTORCH || !existsSync(facts)) return {};
  return { LIBTORCH: /** @type {{ path: string }} */ (JSON.parse(readFileSync(facts, "utf8"))).path };
}

/**
 * Runs a step and prints its duration. If it fails, its output is printed, too.
 * @param {string} title
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} cwd
 * @returns {string} the output
 */
function runStep(title, program, args, cwd = folder) {
  process.stdout.write(`${title} … `);
  const start = performance.now();
  const result = spawnSync(program, args, { cwd, env, encoding: "utf8", maxBuffer: 1 << 26 });
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

/** Writes the program of the README as plain JavaScript. */
function writeExample() {
  const source = readFileSync(join(root, "examples/quick-start.ts"), "utf8");
  const compilerOptions = { module: typescript.ModuleKind.ESNext, target: typescript.ScriptTarget.ES2023 };
  const { outputText } = typescript.transpileModule(source, { compilerOptions });
  writeFileSync(join(folder, "quick-start.mjs"), outputText);
}

const [packed] = JSON.parse(runStep("npm pack", "npm", ["pack", "--json", "--pack-destination", folder], root));
const megabytes = (packed.unpackedSize / 1e6).toFixed(1);
console.log(`  ${packed.filename}: ${packed.entryCount} files, ${megabytes} MB unpacked`);
const unwanted = packed.files
  .map((/** @type {{ path: string }} */ file) => file.path)
  .filter((/** @type {string} */ path) => /^(tests|build|runs)\//.test(path));
if (unwanted.length > 0) throw new Error(`These files must not be in the package: ${unwanted.join(", ")}`);

writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
runStep("npm install in an empty folder", "npm", ["install", "--no-audit", "--no-fund", `./${packed.filename}`]);
runStep("npx temper setup", "npx", ["--no-install", "temper", "setup"]);
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
