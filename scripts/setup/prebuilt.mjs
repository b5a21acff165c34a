// Uses the addon of the optional package @temper-nlp/PLATFORM-ARCH instead of compiling one.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { isAtLeast } from "./inspect.mjs";
import { getErrorMessage } from "./process.mjs";
import { hashSources, readJson } from "./stamp.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/**
 * What a prebuilt addon was built from. It fits only the same libtorch, C++ ABI and sources.
 * @typedef {object} Abi
 * @property {string} libtorch the version
 * @property {boolean} cxx11Abi
 * @property {string} sources hash of native/
 * @property {string} minGlibc
 */

/**
 * The parts of package.json that name the prebuilt addons. scripts/make-prebuilt.mjs writes them.
 * @typedef {object} Manifest
 * @property {Record<string, string>} [optionalDependencies]
 * @property {{ prebuilt?: Record<string, string> }} [temper] the SHA-256 of each addon
 */

/** The name of the package for this machine. */
export const PREBUILT_PACKAGE = `@temper-nlp/${process.platform}-${process.arch}`;

/**
 * The folder of libtorch in a prebuilt addon. Setup replaces it by the real one, which must not be
 * longer.
 */
export const RPATH_PLACEHOLDER = `/temper-libtorch${"/placeholder".repeat(60)}`;

/**
 * Finds the package of prebuilt addons: in the package's own node_modules, or beside the package if npm installed both.
 * Node would look in every folder above, where others may write. A checkout has no such dependency and always compiles.
 * @param {string} root
 * @returns {{ folder: string, sha256: string } | undefined}
 */
export function findPrebuilt(root) {
  const manifest = /** @type {Manifest | undefined} */ (readJson(join(root, "package.json")));
  const sha256 = manifest?.temper?.prebuilt?.[PREBUILT_PACKAGE];
  if (!sha256 || !manifest?.optionalDependencies?.[PREBUILT_PACKAGE] || existsSync(join(root, ".git")))
    return undefined;
  const isInstalled = basename(dirname(resolve(root))) === "node_modules";
  const folders = [join(root, "node_modules"), ...(isInstalled ? [dirname(resolve(root))] : [])];
  const folder = folders
    .map((modules) => join(modules, PREBUILT_PACKAGE))
    .find((path) => existsSync(join(path, "package.json")));
  return folder ? { folder, sha256 } : undefined;
}

/** The version of the C library of this process, or undefined with another C library. */
function readGlibcVersion() {
  const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  return header.glibcVersionRuntime;
}

/**
 * Explains why a prebuilt addon does not fit; undefined if it does.
 * @param {string} root
 * @param {Abi | undefined} abi
 * @param {Libtorch} libtorch
 * @param {string | undefined} glibc
 * @returns {string | undefined}
 */
export function explainMismatch(root, abi, libtorch, glibc = readGlibcVersion()) {
  if (!abi) return "its description is missing";
  if (libtorch.cuda) return "it has no CUDA";
  if (abi.libtorch !== libtorch.version) return `it was built for libtorch ${abi.libtorch}, not ${libtorch.version}`;
  if (abi.cxx11Abi !== libtorch.cxx11Abi) return "it was built for another C++ ABI";
  if (abi.sources !== hashSources(join(root, "native"))) return "it was built from other sources";
  if (!glibc || !isAtLeast(glibc, abi.minGlibc))
    return `it needs glibc ${abi.minGlibc}, not ${glibc ?? "another C library"}`;
  if (Buffer.byteLength(libtorch.libraryFolder) > RPATH_PLACEHOLDER.length) return "the path of libtorch is too long";
  return undefined;
}

/**
 * Writes the folder of libtorch over the placeholder. The rest of the string is filled with zeros.
 * @param {Buffer} addon
 * @param {string} libraryFolder
 */
export function replacePlaceholder(addon, libraryFolder) {
  const start = addon.indexOf(RPATH_PLACEHOLDER);
  if (start < 0) throw new Error("the addon has no placeholder for the folder of libtorch");
  const patched = Buffer.from(addon);
  patched.fill(0, start, start + RPATH_PLACEHOLDER.length);
  patched.write(libraryFolder, start);
  return patched;
}

/**
 * Installs the prebuilt addon into the build folder, if there is one that fits.
 * @param {{ root: string, folder: string, libtorch: Libtorch, env: Environment, log: (line: string) => void }} options
 * @returns {boolean} false if the addon must be compiled
 */
export function installPrebuilt({ root, folder, libtorch, env, log }) {
  const found = env.TEMPER_PREBUILT === "0" ? undefined : findPrebuilt(root);
  if (!found) return false;
  const file = join(found.folder, "temper.node");
  const abi = /** @type {Abi | undefined} */ (readJson(join(found.folder, "abi.json")));
  const content = existsSync(file) ? readFileSync(file) : undefined;
  const reason = !content
    ? "temper.node is missing"
    : createHash("sha256").update(content).digest("hex") !== found.sha256
      ? "it is not the one that this version of temper-nlp names"
      : explainMismatch(root, abi, libtorch);
  if (!content || reason) {
    log(`The prebuilt addon of ${PREBUILT_PACKAGE} does not fit: ${reason}.`);
    return false;
  }
  try {
    mkdirSync(folder, { recursive: true });
    const partial = join(folder, `temper.node.${process.pid}`);
    writeFileSync(partial, replacePlaceholder(content, libtorch.libraryFolder));
    renameSync(partial, join(folder, "temper.node"));
    return true;
  } catch (error) {
    log(`The prebuilt addon could not be installed: ${getErrorMessage(error)}.`);
    return false;
  }
}
