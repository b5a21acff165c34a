// Checks whether a libtorch supports a GPU build. That needs its CUDA libraries, a CUDA runtime and
// CUDA's headers.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { capture } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/**
 * @typedef {object} Cuda
 * @property {string[]} includes folders of CUDA's headers
 * @property {string} runtime path of libcudart
 */

/** The pip package with the headers that torch's dependencies do not include. */
export const CUDA_HEADERS = "cuda-toolkit[cccl,crt]";

/** Headers that libtorch's CUDA headers include, one per package. */
const HEADERS = ["cuda_runtime_api.h", "crt/host_defines.h", "nv/target", "cublas_v2.h", "cusparse.h", "cusolverDn.h"];

/**
 * Whether to build for a GPU: by TEMPER_CUDA=1 or 0, or else if a GPU is visible.
 * @param {Environment} env
 */
export function wantsCuda(env) {
  const setting = env.TEMPER_CUDA;
  if (setting === "0" || setting === "1") return setting === "1";
  return existsSync("/dev/nvidia0") || capture("nvidia-smi", ["-L"], { env }).ok;
}

/**
 * @param {string} path the folder of libtorch
 * @param {string} libraryFolder
 * @param {Environment} env
 * @returns {{ cuda: Cuda | undefined, missing: string | undefined }}
 */
export function inspectCuda(path, libraryFolder, env) {
  if (!wantsCuda(env)) return { cuda: undefined, missing: undefined };
  const found = findCuda(path, libraryFolder, env);
  if (typeof found !== "string") return { cuda: found, missing: undefined };
  if (env.TEMPER_CUDA === "1") throw new Error(`TEMPER_CUDA=1 requests a GPU build, but ${found}`);
  return { cuda: undefined, missing: found };
}

/**
 * @param {string} path
 * @param {string} libraryFolder
 * @param {Environment} env
 * @returns {Cuda | string} the CUDA files, or what is missing
 */
function findCuda(path, libraryFolder, env) {
  const absent = ["libtorch_cuda.so", "libc10_cuda.so"].find((name) => !existsSync(join(libraryFolder, name)));
  if (absent) return `this libtorch is built for the CPU only (no ${absent})`;
  // The nvidia-* packages of pip are next to torch, in one folder each (CUDA 12) or all in one
  // (CUDA 13).
  const packages = listEntries(join(dirname(path), "nvidia")).map((name) => join(dirname(path), "nvidia", name));
  const toolkit = env.CUDA_HOME || env.CUDA_PATH || "/usr/local/cuda";
  const runtime = findRuntime([
    ...packages.map((folder) => join(folder, "lib")),
    libraryFolder,
    join(toolkit, "lib64"),
    join(toolkit, "lib"),
  ]);
  if (!runtime) return "CUDA's runtime (libcudart.so) was not found";
  const includes = [packages, [toolkit]].map(listIncludeFolders).find((folders) => doHeadersMatch(folders, runtime));
  return includes
    ? { includes, runtime }
    : `CUDA's headers were not found; run pip install "${CUDA_HEADERS}" in the environment of torch, or install a CUDA toolkit`;
}

/**
 * CUDA 13 has a separate folder for headers that nvcc finds by itself. @param {string[]} folders
 */
function listIncludeFolders(folders) {
  return folders
    .flatMap((folder) => [join(folder, "include"), join(folder, "include/cccl")])
    .filter((folder) => existsSync(folder));
}

/** @param {string[]} folders */
function findRuntime(folders) {
  for (const folder of folders) {
    const name = listEntries(folder).find((entry) => /^libcudart(-\w+)?\.so\.\d+/.test(entry));
    if (name) return join(folder, name);
  }
  return undefined;
}

/**
 * Compares the major versions. Other headers would compile, but fail at run time.
 * @param {string[]} folders
 * @param {string} runtime
 */
function doHeadersMatch(folders, runtime) {
  const [header, ...others] = HEADERS.map((name) =>
    folders.map((folder) => join(folder, name)).find((file) => existsSync(file)),
  );
  if (!header || others.includes(undefined)) return false;
  const version = Number(readFileSync(header, "utf8").match(/define CUDART_VERSION +(\d+)/)?.[1]);
  return Math.floor(version / 1000) === Number(runtime.match(/\.so\.(\d+)/)?.[1]);
}

/** @param {string} folder */
function listEntries(folder) {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}
