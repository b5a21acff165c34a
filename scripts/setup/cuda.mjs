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

/** The pip package of the headers that torch's own requirements leave out. */
export const CUDA_HEADERS = "cuda-toolkit[cccl,crt]";

/** What libtorch's CUDA headers include, one for each package they come from. */
const HEADERS = ["cuda_runtime_api.h", "crt/host_defines.h", "nv/target", "cublas_v2.h", "cusparse.h", "cusolverDn.h"];

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
  const toolkit = env.CUDA_HOME || env.CUDA_PATH || "/usr/local/cuda";
  const runtime = findRuntime([
    ...packages.map((folder) => join(folder, "lib")),
    libraryFolder,
    join(toolkit, "lib64"),
    join(toolkit, "lib"),
  ]);
  if (!runtime) return "CUDA's runtime (libcudart.so) was not found";
  const includes = [packages, [toolkit]].map(includeFolders).find((folders) => headersFit(folders, runtime));
  return includes
    ? { includes, runtime }
    : `CUDA's headers were not found; pip install "${CUDA_HEADERS}" beside torch, or a CUDA toolkit, brings them`;
}

/** CUDA 13 keeps the headers that nvcc finds by itself in a folder of their own. @param {string[]} folders */
function includeFolders(folders) {
  return folders
    .flatMap((folder) => [join(folder, "include"), join(folder, "include/cccl")])
    .filter((folder) => existsSync(folder));
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
  const [header, ...others] = HEADERS.map((name) =>
    folders.map((folder) => join(folder, name)).find((file) => existsSync(file)),
  );
  if (!header || others.includes(undefined)) return false;
  const version = Number(readFileSync(header, "utf8").match(/define CUDART_VERSION +(\d+)/)?.[1]);
  return Math.floor(version / 1000) === Number(runtime.match(/\.so\.(\d+)/)?.[1]);
}

/** @param {string} folder */
function entries(folder) {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}
