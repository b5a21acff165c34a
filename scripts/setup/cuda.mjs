// Whether a libtorch can be built against for a GPU: its CUDA libraries, a CUDA runtime and CUDA's headers must all be there.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { capture } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/**
 * @typedef {object} Cuda
 * @property {string[]} includes folders of CUDA's headers
 * @property {string} runtime path of libcudart
 */

/**
 * Whether to build for a GPU: TEMPER_CUDA=1 or 0 decides, else whether one is visible.
 * @param {Environment} env
 */
export function wantsCuda(env) {
  const setting = env.TEMPER_CUDA;
  if (setting === "0" || setting === "1") return setting === "1";
  return existsSync("/dev/nvidia0") || capture("nvidia-smi", ["-L"], { env }).ok;
}

/**
 * @param {string} path the libtorch's folder
 * @param {string} libraryFolder
 * @param {Environment} env
 * @returns {{ cuda: Cuda | undefined, missing: string | undefined }}
 */
export function inspectCuda(path, libraryFolder, env) {
  if (!wantsCuda(env)) return { cuda: undefined, missing: undefined };
  const found = findCuda(path, libraryFolder, env);
  if (typeof found !== "string") return { cuda: found, missing: undefined };
  if (env.TEMPER_CUDA === "1") throw new Error(`TEMPER_CUDA=1 asks for a GPU build, but ${found}`);
  return { cuda: undefined, missing: found };
}

/**
 * @param {string} path
 * @param {string} libraryFolder
 * @param {Environment} env
 * @returns {Cuda | string} or what is missing
 */
function findCuda(path, libraryFolder, env) {
  const absent = ["libtorch_cuda.so", "libc10_cuda.so"].find((name) => !existsSync(join(libraryFolder, name)));
  if (absent) return `this libtorch is built for the CPU alone (no ${absent})`;
  // pip's packages nvidia-* lie beside torch, one folder each (CUDA 12) or all in one (CUDA 13).
  const packages = entries(join(dirname(path), "nvidia")).map((name) => join(dirname(path), "nvidia", name));
  const toolkits = [env.CUDA_HOME, env.CUDA_PATH, "/usr/local/cuda"].flatMap((folder) => folder || []);
  const runtime = findRuntime([
    ...packages.map((folder) => join(folder, "lib")),
    libraryFolder,
    ...toolkits.flatMap((folder) => [join(folder, "lib64"), join(folder, "lib")]),
  ]);
  if (!runtime) return "CUDA's runtime (libcudart.so) was not found";
  const sets = [packages, ...toolkits.map((folder) => [folder])].map((folders) => folders.map((folder) => join(folder, "include")));
  const includes = sets.find((folders) => headersFit(folders, runtime));
  if (!includes)
    return "CUDA's headers (cuda_runtime_api.h, crt/host_defines.h) were not found; pip's nvidia-cuda-crt or a CUDA toolkit has them";
  return { includes: includes.filter((folder) => existsSync(folder)), runtime };
}

/** @param {string[]} folders */
function findRuntime(folders) {
  for (const folder of folders) {
    const name = entries(folder).find((entry) => /^libcudart(-\w+)?\.so\.\d+/.test(entry));
    if (name) return join(folder, name);
  }
  return undefined;
}

/**
 * Headers of another major version than the runtime's compile, and then fail at run time.
 * @param {string[]} folders
 * @param {string} runtime
 */
function headersFit(folders, runtime) {
  const has = (/** @type {string} */ name) => folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  const header = has("cuda_runtime_api.h");
  if (!header || !has("crt/host_defines.h")) return false;
  const version = Number(readFileSync(header, "utf8").match(/define CUDART_VERSION +(\d+)/)?.[1]);
  return Math.floor(version / 1000) === Number(runtime.match(/\.so\.(\d+)/)?.[1]);
}

/** @param {string} folder */
function entries(folder) {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}
