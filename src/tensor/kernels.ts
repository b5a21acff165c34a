import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { getCacheFolder } from "../base/cache.js";
import { getBuildFolder, native, nativeCuda, packageRoot } from "./native.js";
import { type Device, type DType, getGpuIndex } from "./types.js";

/** The files in native/gpu/kernels, and the constants that each is compiled with. */
export const kernelFiles = {
  "residual-norm": { sources: ["layer-norm.cuh", "residual-norm.cu"], constants: [] },
  activation: { sources: ["activation.cu"], constants: ["-DTANH=0"] },
  "activation-tanh": { sources: ["activation.cu"], constants: ["-DTANH=1"] },
  "column-sum": { sources: ["column-sum.cu"], constants: [] },
  dropout: { sources: ["dropout.cu"], constants: [] },
  "embedding-norm": { sources: ["layer-norm.cuh", "embedding-norm.cu"], constants: [] },
  "attention-64": { sources: ["attention.cu"], constants: ["-DKEYS=64"] },
  "attention-128": { sources: ["attention.cu"], constants: ["-DKEYS=128"] },
  mixture: { sources: ["mixture.cu"], constants: [] },
  adamw: { sources: ["adamw.cu"], constants: [] },
} as const;

export type KernelFile = keyof typeof kernelFiles;

export interface Nvrtc {
  readonly library: string;
  readonly builtins: string;
}

export function findNvrtc(folders: readonly string[]): Nvrtc | null {
  for (const folder of folders) {
    const names = existsSync(folder) ? readdirSync(folder) : [];
    const library = names.find((name) => /^libnvrtc(-[0-9a-f]+)?\.so\.\d+/.test(name));
    const builtins = names.find((name) => /^libnvrtc-builtins(-[0-9a-f]+)?\.so\.\d+/.test(name));
    if (library && builtins) return { library: join(folder, library), builtins: join(folder, builtins) };
  }
  return null;
}

export function listNvrtcFolders(torchFolder: string): string[] {
  const packages = join(dirname(torchFolder), "nvidia");
  const names = existsSync(packages) ? readdirSync(packages).sort() : [];
  const toolkit = process.env.CUDA_HOME || "/usr/local/cuda";
  return [...names.map((name) => join(packages, name, "lib")), join(torchFolder, "lib"), join(toolkit, "lib64")];
}

export function compileKernels(
  nvrtc: Nvrtc,
  file: KernelFile,
  width: number,
  dtype: DType,
  architecture: string,
): ArrayBuffer {
  const { sources, constants } = kernelFiles[file];
  const options = [
    `-arch=${architecture}`,
    "-std=c++17",
    `-DSCALAR_BF16=${dtype === "bfloat16" ? 1 : 0}`,
    `-DWIDTH=${width}`,
    ...constants,
  ];
  return native().compileKernels(nvrtc.library, nvrtc.builtins, readSources(sources), sources.at(-1)!, options);
}

function readSources(names: readonly string[]): string {
  const folder = join(packageRoot, "native/gpu/kernels");
  return ["prelude.cuh", ...names].map((name) => readFileSync(join(folder, name), "utf8")).join("");
}

/** Compiles kernels, or reads them from the cache. A damaged entry is compiled again. */
function getCompiledKernels(nvrtc: Nvrtc, file: KernelFile, width: number, dtype: DType, architecture: string) {
  const parts = [readSources(kernelFiles[file].sources), file, width, dtype, architecture, nvrtc.library];
  const key = createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  const path = join(getCacheFolder(), "kernels", `${key}.cubin`);
  const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
  try {
    const entry = readFileSync(path);
    const code = entry.subarray(64);
    if (entry.toString("latin1", 0, 64) === hash(code)) return Uint8Array.from(code).buffer;
  } catch {
    // There is no entry yet.
  }
  const code = compileKernels(nvrtc, file, width, dtype, architecture);
  try {
    mkdirSync(dirname(path), { recursive: true });
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, Buffer.concat([Buffer.from(hash(new Uint8Array(code)), "latin1"), new Uint8Array(code)]));
    renameSync(temporary, path);
  } catch {
    // The cache is optional: the next process compiles again.
  }
  return code;
}

let nvrtc: Nvrtc | null | undefined;
let architecture: string | undefined;
const loaded = new Map<string, boolean>();

/**
 * Loads the kernels of a file for a width and a dtype, once per process. Returns false if they
 * cannot be used: on a CPU, without NVRTC, for other dtypes, on a GPU without enough shared memory,
 * or if TEMPER_KERNELS excludes them (0: all; -adamw,-dropout: these). Callers then use libtorch's
 * operators, which give the same results up to rounding.
 */
export function loadKernels(file: KernelFile, width: number, dtype: DType, device: Device, sharedBytes = 0): boolean {
  if (device === "cpu" || (dtype !== "bfloat16" && dtype !== "float32")) return false;
  const key = `${file} ${width} ${dtype}`;
  const known = loaded.get(key);
  if (known !== undefined) return known;
  loaded.set(key, false);
  if (!isKernelFileEnabled(file)) return false;
  try {
    const { path } = JSON.parse(readFileSync(join(getBuildFolder(), "libtorch.json"), "utf8")) as { path: string };
    nvrtc ??= findNvrtc(listNvrtcFolders(path));
    const properties = native().devices()[getGpuIndex(device)]!;
    if (!nvrtc || sharedBytes > properties.sharedBytes) return false;
    architecture ??= `sm_${properties.capability.replace(".", "")}`;
    nativeCuda().loadKernels(key, getCompiledKernels(nvrtc, file, width, dtype, architecture));
    loaded.set(key, true);
    return true;
  } catch {
    return false;
  }
}

function isKernelFileEnabled(file: KernelFile): boolean {
  const excluded = (process.env.TEMPER_KERNELS ?? "").split(",");
  return !excluded.includes("0") && !excluded.includes(`-${file}`);
}
