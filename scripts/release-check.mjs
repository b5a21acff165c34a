// Checks that a publish would work, with the packages that `make prebuilt` wrote. Versions and the changelog agree, the publish
// workflow asks for provenance, the archives have what the manifests promise, publint and attw find no mistake in
// them, npm accepts each, and `npx temper-nlp try` works from a registry that has them.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { parse } from "yaml";
import { startRegistry } from "./release/registry.mjs";

const root = resolve(import.meta.dirname, "..");
const out = join(root, "build/prebuilt");
const workflow = ".github/workflows/publish.yml";
/** Newer versions may judge differently, so a release uses these. */
const tools = { publint: "publint@0.3.25", attw: "@arethetypeswrong/cli@0.18.5" };
/** The largest size of each archive in bytes. */
const limits = { "temper-nlp": 10e6, "temper-nlp-demo": 30e6 };

/** @type {string[]} */
const problems = [];
/**
 * @param {boolean} isRight
 * @param {string} problem
 */
function check(isRight, problem) {
  if (!isRight) problems.push(problem);
}

function stopIfWrong() {
  if (problems.length === 0) return;
  for (const problem of problems) console.error(`\n${problem}`);
  process.exit(1);
}

/** @param {string} path */
const read = (path) => readFileSync(join(root, path), "utf8");

/**
 * @typedef {object} Archive
 * @property {string} path
 * @property {{ name: string, version: string, exports?: Record<string, { types: string, default: string }>, bin?: Record<string, string> }} manifest
 * @property {ReadonlySet<string>} files
 */

/** @param {string} path @returns {Archive} */
function openArchive(path) {
  const extract = (/** @type {string[]} */ ...args) =>
    execFileSync("tar", args, { encoding: "utf8", maxBuffer: 1 << 28 });
  const files = extract("-tzf", path).trim().split("\n");
  const manifest = JSON.parse(extract("-xzOf", path, "package/package.json"));
  return { path, manifest, files: new Set(files.map((file) => file.replace(/^package\//, ""))) };
}

/** @param {readonly Archive[]} archives */
function checkVersions(archives) {
  const { version } = JSON.parse(read("package.json"));
  for (const { path, manifest } of archives)
    check(
      manifest.version === version,
      `${basename(path)}: expected version ${version}, received ${manifest.version}.`,
    );
  check(read("CITATION.cff").includes(`version: ${version}\n`), `CITATION.cff does not name version ${version}.`);
  const headings = [...read("CHANGELOG.md").matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
  check(headings.includes(version), `CHANGELOG.md has no section ## ${version}.`);
  // A tag is pushed for a release. Before that, changes collect under Unreleased.
  const { GITHUB_REF_TYPE, GITHUB_REF_NAME } = process.env;
  if (GITHUB_REF_TYPE === "tag") {
    check(GITHUB_REF_NAME === `v${version}`, `The tag ${GITHUB_REF_NAME} is not v${version}.`);
    check(headings[0] === version, `CHANGELOG.md begins with ## ${headings[0]}. Name the section ## ${version}.`);
  } else if (headings[0] !== version)
    console.log(`note: CHANGELOG.md has changes under ${headings[0]}. A release moves them under a new version.`);
}

function checkWorkflow() {
  const { on, jobs } = parse(read(workflow));
  check(on?.push?.tags?.includes("v*") === true, `${workflow}: expected to run for tags v*.`);
  const job = jobs?.publish ?? {};
  check(job.permissions?.["id-token"] === "write", `${workflow}: provenance needs permissions: id-token: write.`);
  /** @type {string[]} */
  const commands = (job.steps ?? []).flatMap((/** @type {{ run?: string }} */ { run }) => run ?? []);
  const place = (/** @type {RegExp} */ pattern) => commands.findIndex((command) => pattern.test(command));
  check(place(/make release-check/) >= 0, `${workflow}: expected a step make release-check.`);
  check(
    place(/npm publish .*--provenance/) > place(/make release-check/),
    `${workflow}: publish --provenance comes last.`,
  );
  check(place(/npm pkg set repository/) >= 0, `${workflow}: provenance needs the field repository.`);
}

/**
 * The files that exports name, under any condition.
 * @param {string | object} exports
 * @returns {string[]}
 */
function listTargets(exports) {
  return typeof exports === "string" ? [exports] : Object.values(exports).flatMap(listTargets);
}

/** @param {Archive} archive */
function checkContents({ path, manifest, files }) {
  const { name, exports = {}, bin = {} } = manifest;
  for (const file of [...listTargets(exports), ...Object.values(bin), "README.md", "package.json"])
    check(files.has(file.replace("./", "")) || name.startsWith("@"), `${basename(path)}: ${file} is missing.`);
  const unwanted = [...files].filter((file) => /^(tests|build|runs|packages|src|node_modules)\//.test(file));
  check(
    unwanted.length === 0,
    `${basename(path)}: these files do not belong there: ${unwanted.slice(0, 5).join(", ")}.`,
  );
  if (name === "temper-nlp-demo")
    for (const filter of ["standard", "robust"])
      check(
        files.has(`filters/${filter}/onnx/model_quantized.onnx`),
        `${basename(path)}: the ${filter} filter is missing.`,
      );
  const limit = limits[/** @type {keyof typeof limits} */ (name)] ?? Number.POSITIVE_INFINITY;
  const { size } = statSync(path);
  check(size <= limit, `${basename(path)}: ${size} bytes, at most ${limit} are expected.`);
  console.log(`${basename(path)}: ${files.size} files, ${(size / 1e6).toFixed(1)} MB`);
}

/**
 * Runs a program and remembers its output as a problem if it fails.
 * @param {string} title
 * @param {string} program
 * @param {readonly string[]} args
 * @param {import("node:child_process").SpawnOptions} [options]
 */
async function runStep(title, program, args, options = {}) {
  process.stdout.write(`${title} … `);
  const child = spawn(program, args, { cwd: root, ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  console.log(code === 0 ? "ok" : "failed");
  check(code === 0, `${title}:\n${output.trim()}`);
  return output;
}

/**
 * A user's first command, with npm and a registry that has the archives.
 * @param {readonly Archive[]} archives
 * @param {string} version
 */
async function checkFirstCommand(archives, version) {
  const folder = mkdtempSync(join(tmpdir(), "temper-release-"));
  const registry = await startRegistry(archives);
  const { TEMPER_BACKEND: _, LIBTORCH: __, ...rest } = process.env;
  const cache = join(folder, "npm");
  const own = { TEMPER_CACHE: join(folder, "cache"), npm_config_registry: registry.url, npm_config_cache: cache };
  const args = ["--yes", `temper-nlp@${version}`, "try", "--json"];
  const output = await runStep("npx temper-nlp try", "npx", args, { cwd: folder, env: { ...rest, ...own } });
  registry.close();
  check(/"outcome": "failed"/.test(output), `npx temper-nlp try: expected an email, received:\n${output}`);
  rmSync(folder, { recursive: true, force: true });
}

const archives = readdirSync(out)
  .filter((name) => name.endsWith(".tgz"))
  .map((name) => openArchive(join(out, name)));
const names = archives.map(({ manifest }) => manifest.name);
for (const name of ["temper-nlp", "temper-nlp-demo", `@temper-nlp/${process.platform}-${process.arch}`])
  check(names.includes(name), `${out} has no archive of ${name}. Run make prebuilt.`);
checkVersions(archives);
checkWorkflow();
for (const archive of archives) checkContents(archive);
// The other checks take minutes.
stopIfWrong();
for (const { path, manifest } of archives) {
  await runStep(`publint ${basename(path)}`, "npx", ["--yes", tools.publint, path, "--strict"]);
  if (manifest.exports)
    await runStep(`attw ${basename(path)}`, "npx", ["--yes", tools.attw, path, "--profile", "esm-only"]);
  await runStep(`npm publish --dry-run ${basename(path)}`, "npm", ["publish", "--dry-run", "--access", "public", path]);
}
await checkFirstCommand(archives, JSON.parse(read("package.json")).version);
stopIfWrong();
console.log("\nA publish would work.");
