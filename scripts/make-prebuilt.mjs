// Builds the packages to publish into build/prebuilt: temper-nlp, temper-nlp-demo, and one package per platform with the
// binaries of onnxruntime-node and tokenizers, which npm would otherwise install for all platforms. The package for this
// platform also has the addon, unless --without-addon leaves it out. In a checkout, the addon is always compiled, and the two
// packages are installed whole.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildAddon } from "./setup/build.mjs";
import { findLibtorch, TORCH_VERSION } from "./setup/find.mjs";
import { PREBUILT_PACKAGE, RPATH_PLACEHOLDER } from "./setup/prebuilt.mjs";
import { hashSources, writeJson } from "./setup/stamp.mjs";

const root = resolve(import.meta.dirname, "..");
const out = join(root, "build/prebuilt");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const hasAddon = !process.argv.includes("--without-addon");
const modules = join(root, "node_modules");
const onnxBinaries = "bin/napi-v6";

/**
 * Packs a folder, and returns the path of the archive.
 * @param {string} folder
 */
function pack(folder) {
  const output = execFileSync("npm", ["pack", "--json", "--pack-destination", out], { cwd: folder, encoding: "utf8" });
  return join(out, JSON.parse(output)[0].filename);
}

/** The platforms that ONNX Runtime has binaries for, such as linux-x64. */
function listPlatforms() {
  const folder = join(modules, "onnxruntime-node", onnxBinaries);
  return readdirSync(folder).flatMap((os) => readdirSync(join(folder, os)).map((cpu) => ({ os, cpu })));
}

/**
 * The newest version of glibc that the symbols of a library need.
 * @param {Buffer} library
 */
function findMinGlibc(library) {
  const versions = new Set(library.toString("latin1").match(/(?<=GLIBC_)\d+\.\d+(\.\d+)?(?=\0)/g));
  return [...versions].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
}

/**
 * Compiles the addon into a folder.
 * @param {string} folder
 */
function addAddon(folder) {
  // A checkout may be built for another libtorch. The package is for the one that setup installs, on a CPU.
  const env = { ...process.env, TEMPER_CUDA: "0" };
  const { libtorch, rejected } = findLibtorch({ root, env });
  if (!libtorch || libtorch.version !== TORCH_VERSION || libtorch.cuda)
    throw new Error(
      `Expected libtorch ${TORCH_VERSION} for the CPU, found ${libtorch?.version ?? "none"} ` +
        `(${rejected.map(({ path, reason }) => `${path}: ${reason}`).join("; ")}). Run make setup, or set LIBTORCH.`,
    );
  const build = join(out, "native");
  buildAddon({ root, folder: build, libtorch, env, clean: true, rpath: RPATH_PLACEHOLDER });
  const file = join(folder, "temper.node");
  cpSync(join(build, "temper.node"), file);
  execFileSync("strip", ["--strip-unneeded", file]);
  const { version, cxx11Abi } = libtorch;
  const minGlibc = findMinGlibc(readFileSync(file));
  const sources = hashSources(join(root, "native"));
  writeJson(join(folder, "abi.json"), { libtorch: version, cxx11Abi, sources, minGlibc });
  return { minGlibc, sha256: createHash("sha256").update(readFileSync(file)).digest("hex") };
}

/**
 * Writes the package of a platform.
 * @param {{ os: string, cpu: string }} platform
 */
function buildPlatformPackage({ os, cpu }) {
  const name = `@temper-nlp/${os}-${cpu}`;
  const folder = join(out, `${os}-${cpu}`);
  rmSync(folder, { recursive: true, force: true });
  const runtime = join(folder, "onnxruntime-node");
  for (const part of ["package.json", "README.md", "dist", `${onnxBinaries}/${os}/${cpu}`])
    cpSync(join(modules, "onnxruntime-node", part), join(runtime, part), { recursive: true });
  const tokenizers = join(modules, "tokenizers");
  const isWanted = (/** @type {string} */ file) =>
    !file.endsWith(".node") || (file.includes(`.${os}-${cpu}`) && !file.includes("musl"));
  for (const file of readdirSync(tokenizers).filter(isWanted))
    cpSync(join(tokenizers, file), join(folder, "tokenizers", file));
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  const addon = name === PREBUILT_PACKAGE && hasAddon ? addAddon(folder) : null;
  writeJson(join(folder, "package.json"), {
    name,
    version: manifest.version,
    description: `The binaries of temper-nlp for ${os}-${cpu}: ONNX Runtime, tokenizers${addon ? ", and the addon" : ""}`,
    license: `${manifest.license} AND Apache-2.0`,
    ...(manifest.repository && { repository: manifest.repository }),
    ...{ os: [os], cpu: [cpu], ...(os === "linux" && { libc: ["glibc"] }) },
  });
  return { name, addon, archive: pack(folder) };
}

/**
 * Packs temper-nlp with the packages of the platforms as optional dependencies, and with the hash of the addon: setup
 * loads no other addon.
 * @param {readonly ReturnType<typeof buildPlatformPackage>[]} platforms
 */
function packMain(platforms) {
  const archive = pack(root);
  const folder = join(out, "main");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  execFileSync("tar", ["-xzf", archive, "-C", folder]);
  const { "onnxruntime-node": version, tokenizers: _, ...dependencies } = manifest.dependencies;
  dependencies["onnxruntime-common"] = version;
  const optionalDependencies = Object.fromEntries(platforms.map(({ name }) => [name, manifest.version]));
  const prebuilt = Object.fromEntries(platforms.flatMap(({ name, addon }) => (addon ? [[name, addon.sha256]] : [])));
  const { workspaces, ...rest } = manifest;
  const content = JSON.stringify({ ...rest, dependencies, optionalDependencies, temper: { prebuilt } }, null, 2);
  writeFileSync(join(folder, "package/package.json"), `${content}\n`);
  execFileSync("tar", ["-czf", archive, "-C", folder, "package"]);
  return archive;
}

mkdirSync(out, { recursive: true });
const platforms = listPlatforms().map(buildPlatformPackage);
const main = packMain(platforms);
const own = platforms.find(({ name }) => name === PREBUILT_PACKAGE);
if (!own) throw new Error(`ONNX Runtime has no binaries for ${PREBUILT_PACKAGE}.`);
const demo = pack(join(root, "packages/temper-nlp-demo"));
const minGlibc = own.addon?.minGlibc;
writeJson(join(out, "packages.json"), { main, demo, platform: own.archive, name: PREBUILT_PACKAGE, minGlibc });
console.log([main, demo, ...platforms.map(({ archive }) => archive)].join("\n"));
if (minGlibc) console.log(`The addon needs glibc ${minGlibc}.`);
