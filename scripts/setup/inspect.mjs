// What a folder that should hold a libtorch really holds: its version, its C++ ABI, where headers and libraries lie.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { inspectCuda } from "./cuda.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {"LIBTORCH" | "python" | "venv" | "target" | "system"} Source */
/**
 * A libtorch to build against.
 * @typedef {object} Libtorch
 * @property {string} path the folder that holds include/ and lib/
 * @property {Source} source how it was found
 * @property {string} version such as 2.15.0, as its headers say
 * @property {boolean} cxx11Abi whether its std::string is the new one of libstdc++
 * @property {string[]} includes the folders to include from
 * @property {string} libraryFolder
 * @property {import("./cuda.mjs").Cuda | undefined} cuda what a build for a GPU needs; undefined: build for the CPU alone
 * @property {string | undefined} withoutCuda why there is no GPU build although a GPU is there
 */

/** The oldest libtorch the engine builds against. */
export const OLDEST = "1.13";

const VERSION_HEADERS = ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"];

/**
 * Reads a candidate folder; throws the reason when it is no usable libtorch.
 * @param {string} path
 * @param {Source} source
 * @param {Environment} env
 * @returns {Libtorch}
 */
export function inspectLibtorch(path, source, env) {
  if (!existsSync(path)) throw new Error("there is no such folder");
  const include = join(path, "include");
  if (!existsSync(join(include, "ATen/ATen.h"))) throw new Error("its C++ headers are missing (include/ATen/ATen.h)");
  const libraryFolder = findLibraryFolder(path);
  const version = readVersion(include);
  if (!isAtLeast(version, OLDEST)) throw new Error(`it is version ${version}; ${OLDEST} or newer is needed`);
  const { cuda, missing } = inspectCuda(path, libraryFolder, env);
  return {
    path: realpathSync(path),
    source,
    version,
    cxx11Abi: readCxx11Abi(join(libraryFolder, "libc10.so")),
    includes: [include, join(include, "torch/csrc/api/include")],
    libraryFolder: realpathSync(libraryFolder),
    cuda,
    withoutCuda: missing,
  };
}

/** A wheel has lib/, Debian has lib/x86_64-linux-gnu/. @param {string} path */
function findLibraryFolder(path) {
  const architecture = process.arch === "arm64" ? "aarch64" : "x86_64";
  const folders = ["lib", "lib64", `lib/${architecture}-linux-gnu`].map((folder) => join(path, folder));
  const missing = (/** @type {string} */ folder) =>
    ["libtorch_cpu.so", "libc10.so"].find((name) => !existsSync(join(folder, name)));
  const found = folders.find((folder) => !missing(folder));
  if (!found) throw new Error(`its libraries are missing (lib/${missing(/** @type {string} */ (folders[0]))})`);
  return found;
}

/** @param {string} include */
function readVersion(include) {
  const header = VERSION_HEADERS.map((name) => join(include, name)).find((name) => existsSync(name));
  const text = header ? readFileSync(header, "utf8") : "";
  const parts = ["MAJOR", "MINOR", "PATCH"].map(
    (part) => text.match(new RegExp(`define TORCH_VERSION_${part} +(\\d+)`))?.[1],
  );
  if (parts.includes(undefined)) throw new Error("its headers do not say which version it is (torch/version.h)");
  return parts.join(".");
}

/**
 * Whether a version such as 2.15.0 is as new as another.
 * @param {string} version
 * @param {string} wanted
 */
export function isAtLeast(version, wanted) {
  return version.localeCompare(wanted, "en", { numeric: true }) >= 0;
}

/**
 * Old wheels were built with the old std::string. The mangled name of a function that takes one tells.
 * @param {string} library path of libc10.so
 */
export function readCxx11Abi(library) {
  const names = readFileSync(library, "latin1").match(/torchCheckFail\w*/g);
  if (!names) throw new Error("libc10.so is broken: it lacks symbols every libtorch has");
  return names.some((name) => name.includes("__cxx11"));
}

/**
 * The pip record of a wheel's torch folder, if it has one: an interrupted installation has none.
 * @param {string} path
 */
export function wheelRecord(path) {
  const site = dirname(path);
  const info = readdirSync(site).find((name) => /^torch-\d.*\.dist-info$/.test(name));
  const record = info && join(site, info, "RECORD");
  return record && existsSync(record) ? record : undefined;
}
