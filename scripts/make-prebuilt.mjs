// Builds the packages to publish into build/prebuilt: the addon for this machine, and temper-nlp with
// the addon as an optional dependency. In a checkout, the addon is always compiled.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildAddon } from "./setup/build.mjs";
import { findLibtorch } from "./setup/find.mjs";
import { TORCH_VERSION } from "./setup/install.mjs";
import { PREBUILT_PACKAGE, RPATH_PLACEHOLDER } from "./setup/prebuilt.mjs";
import { hashSources, writeJson } from "./setup/stamp.mjs";

const root = resolve(import.meta.dirname, "..");
const out = join(root, "build/prebuilt");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/**
 * Packs a folder, and returns the path of the archive.
 * @param {string} folder
 */
function pack(folder) {
  const output = execFileSync("npm", ["pack", "--json", "--pack-destination", out], { cwd: folder, encoding: "utf8" });
  return join(out, JSON.parse(output)[0].filename);
}

/**
 * The newest version of glibc that the symbols of a library need.
 * @param {Buffer} library
 */
function findMinGlibc(library) {
  const versions = new Set(library.toString("latin1").match(/(?<=GLIBC_)\d+\.\d+(\.\d+)?(?=\0)/g));
  return [...versions].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
}

function buildAddonPackage() {
  // A checkout may be built for another libtorch. The package is for the one that setup installs, on a CPU.
  const env = { ...process.env, TEMPER_CUDA: "0" };
  const { libtorch, rejected } = findLibtorch({ root, env });
  if (!libtorch || libtorch.version !== TORCH_VERSION || libtorch.cuda)
    throw new Error(
      `Expected libtorch ${TORCH_VERSION} for the CPU, found ${libtorch?.version ?? "none"} ` +
        `(${rejected.map(({ path, reason }) => `${path}: ${reason}`).join("; ")}). Run make setup, or set LIBTORCH.`,
    );
  const [build, folder] = [join(out, "native"), join(out, "package")];
  buildAddon({ root, folder: build, libtorch, env, clean: true, rpath: RPATH_PLACEHOLDER });
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(join(build, "temper.node"), join(folder, "temper.node"));
  execFileSync("strip", ["--strip-unneeded", join(folder, "temper.node")]);
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  const minGlibc = findMinGlibc(readFileSync(join(folder, "temper.node")));
  const { version, cxx11Abi } = libtorch;
  writeJson(join(folder, "abi.json"), {
    libtorch: version,
    cxx11Abi,
    sources: hashSources(join(root, "native")),
    minGlibc,
  });
  writeJson(join(folder, "package.json"), {
    name: PREBUILT_PACKAGE,
    version: manifest.version,
    description: `The native addon of temper-nlp for ${process.platform}-${process.arch} and libtorch ${version} (CPU)`,
    license: manifest.license,
    os: [process.platform],
    cpu: [process.arch],
    libc: ["glibc"],
    files: ["temper.node", "abi.json", "LICENSE"],
  });
  const sha256 = createHash("sha256")
    .update(readFileSync(join(folder, "temper.node")))
    .digest("hex");
  return { archive: pack(folder), minGlibc, sha256 };
}

/**
 * Packs temper-nlp with the addon as an optional dependency, and with its hash: setup loads no other addon.
 * @param {string} sha256
 */
function packMain(sha256) {
  const archive = pack(root);
  const folder = join(out, "main");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  execFileSync("tar", ["-xzf", archive, "-C", folder]);
  const inside = join(folder, "package");
  const optionalDependencies = { ...manifest.optionalDependencies, [PREBUILT_PACKAGE]: manifest.version };
  const temper = { prebuilt: { [PREBUILT_PACKAGE]: sha256 } };
  const content = JSON.stringify({ ...manifest, optionalDependencies, temper }, null, 2);
  writeFileSync(join(inside, "package.json"), `${content}\n`);
  execFileSync("tar", ["-czf", archive, "-C", folder, "package"]);
  return archive;
}

mkdirSync(out, { recursive: true });
const { archive, minGlibc, sha256 } = buildAddonPackage();
const main = packMain(sha256);
writeJson(join(out, "packages.json"), { main, addon: archive, name: PREBUILT_PACKAGE, minGlibc });
console.log(`${archive} (needs glibc ${minGlibc})\n${main}`);
