// Inspects a libtorch folder: its version, its C++ ABI, and the folders of its headers and
// libraries.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { inspectCuda } from "./cuda.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {"LIBTORCH" | "python" | "venv" | "target" | "system"} Source */
/**
 * A libtorch to build against.
 * @typedef {object} Libtorch
 * @property {string} path the folder with include/ and lib/
 * @property {Source} source how it was found
 * @property {string} version such as 2.15.0, from its headers
 * @property {boolean} cxx11Abi whether it uses the new std::string of libstdc++
 * @property {string[]} includes the include folders
 * @property {string} libraryFolder
 * @property {import("./cuda.mjs").Cuda | undefined} cuda the CUDA files for a GPU build; undefined for a CPU build
 * @property {string | undefined} withoutCuda why there is no GPU build although there is a GPU
 */

/** The oldest supported libtorch. This is the only place that states it for the code. */
export const OLDEST = "2.11";

const VERSION_HEADERS = ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"];

/**
 * Inspects a candidate folder. Throws if it is not a usable libtorch.
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
  if (!isAtLeast(version, OLDEST)) throw new Error(`it is version ${version}; ${OLDEST} or newer is required`);
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

/** Finds lib/ (a wheel) or a folder of the system, such as lib/x86_64-linux-gnu/. @param {string} path */
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
  if (parts.includes(undefined)) throw new Error("its headers do not contain a version (torch/version.h)");
  return parts.join(".");
}

/**
 * Whether a version such as 2.15.0 is at least a minimum.
 * @param {string} version
 * @param {string} minimum
 */
export function isAtLeast(version, minimum) {
  return version.localeCompare(minimum, "en", { numeric: true }) >= 0;
}

/**
 * Old wheels were built with the old std::string, which shows in the mangled name of a function.
 * @param {string} library path of libc10.so
 */
export function readCxx11Abi(library) {
  const names = readFileSync(library, "latin1").match(/torchCheckFail\w*/g);
  if (!names) throw new Error("libc10.so is damaged: it lacks symbols that every libtorch has");
  return names.some((name) => name.includes("__cxx11"));
}

/**
 * Finds the pip record of a torch folder. An interrupted installation has none.
 * @param {string} path
 */
export function findWheelRecord(path) {
  const site = dirname(path);
  const info = readdirSync(site).find((name) => /^torch-\d.*\.dist-info$/.test(name));
  const record = info && join(site, info, "RECORD");
  return record && existsSync(record) ? record : undefined;
}
