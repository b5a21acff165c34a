import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readBackend } from "../base/backend.js";
import { getErrorMessage, UserError } from "../base/errors.js";
import { getErrorCode } from "../base/files.js";
import { type CpuidWords, findCpuFeatures, readIsaLimit } from "./cpu-features.js";

/**
 * An operator of the addon. Tensors are passed as handles. `returns` has one letter per result:
 * T for a tensor, L for a list of tensors, V for a plain value.
 */
export interface NativeOperator {
  (...args: unknown[]): unknown;
  readonly returns: string;
  readonly schema: string;
}

export interface MemoryStats {
  tensors: number;
  bytes: number;
  peakBytes: number;
  cachedBytes: number;
  availableBytes: number;
}

/** The functions that native/ exports. docs/explanation/engine.md explains the design. */
export interface Native {
  cpuid(): CpuidWords;
  limitInstructions(level: string): void;
  /**
   * Moves the results of matrix products and reductions by random last bits, as another processor
   * would. For tests; `TEMPER_JITTER=SEED` does the same from the start. Returns the seed before.
   */
  jitter(seed: number | null): number | null;
  /** If the process crashes, writes `before`, the name of the signal and `after` to stderr. */
  reportCrashes(before: string, after: string): void;
  op(name: string, overload?: string): NativeOperator;
  create(data: ArrayBufferView, shape: readonly number[], storedDType: number, dtype: number): number;
  write(handle: number, data: ArrayBufferView): void;
  read(handle: number, dtype: number): ArrayBuffer;
  describe(handle: number): number[];
  address(handle: number): number;
  release(handles: readonly number[]): void;
  grad(
    outputs: readonly number[],
    inputs: readonly number[],
    outputGradients: readonly (number | null)[] | null,
    retainGraph: boolean,
    createGraph: boolean,
    allowUnused: boolean,
  ): (number | null)[];
  setGradEnabled(enabled: boolean): boolean;
  versions(): { libtorch: string; configuration: string; library: string };
  setNumThreads(count: number): void;
  getNumThreads(): number;
  seed(device: string, seed: number): void;
  fillDropoutMask(handle: number, p: number): void;
  memoryStats(): MemoryStats;
  /** Bytes that the control groups of a membership file still allow, for tests. */
  controlGroupMemory(membership: string, root: string): number;
  emptyCpuCache(limit: number): void;
  devices(): {
    name: string;
    bytes: number;
    /** The most shared memory that a block of a kernel can use. */
    sharedBytes: number;
    capability: string;
  }[];
  compileKernels(
    nvrtc: string,
    builtins: string,
    source: string,
    name: string,
    options: readonly string[],
  ): ArrayBuffer;
  /** Present only in a build with CUDA. */
  readonly useStream?: unknown;
}

/** The additional functions of a build with CUDA. */
export interface NativeCuda {
  useStream(device: number): void;
  loadKernels(key: string, code: ArrayBuffer): void;
  synchronize(): void;
  deviceMemory(device: number): Omit<MemoryStats, "tensors">;
  resetPeakMemory(device: number): void;
  emptyCache(): void;
  allowTf32(allowed: boolean): void;
  isTf32Allowed(): boolean;
  enterRandom(state: number, seed: number): void;
  seedRandom(state: number, seed: number): void;
  graphBegin(states: readonly number[]): void;
  graphEnd(): number;
  graphAbort(): void;
  graphReplay(graph: number): void;
  graphFree(graph: number): void;
  eventRecord(event: number): void;
  eventWait(event: number): void;
  eventQuery(event: number): boolean;
  branchesFork(count: number): void;
  branchEnter(branch: number): void;
  branchesJoin(count: number): void;
}

/** The additional functions of a build with c10d. Times are in seconds. */
export interface NativeDistributed {
  /** Present only in a build with NCCL. */
  readonly hasNccl?: boolean;
  storeOpen(host: string, port: number, isServer: boolean, timeout: number, secret: string): number;
  storeClose(): void;
  heartbeatStart(host: string, port: number, rank: number, size: number): void;
  storeSet(key: string, value: string): void;
  storeGet(key: string): string | null;
  storeWait(key: string, timeout: number): string | null;
  storeCount(key: string): number;
  groupOpen(backend: string, rank: number, size: number, host: string, timeout: number): number;
  groupClose(group: number): void;
  groupReduce(group: number, tensors: readonly number[]): number;
  groupBroadcast(group: number, tensor: number): number;
  groupGather(group: number, output: number, input: number): number;
  workWait(work: number, timeout: number, onStream: boolean): void;
}

/** The folder of package.json. It is the same from src/ and from dist/. */
export const packageRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** Returns the folder of the addon. TEMPER_BUILD selects another build. */
export function getBuildFolder(): string {
  return resolve(packageRoot, process.env.TEMPER_BUILD ?? "build/native");
}

function getAddonFile(): string {
  return join(getBuildFolder(), "temper.node");
}

/** Returns true if models that have an ONNX file are computed with it: by choice, or without an addon. */
export function prefersOnnx(): boolean {
  const backend = readBackend();
  return backend === null ? !existsSync(getAddonFile()) : backend === "onnx";
}

let loaded: Native | undefined;

export function native(): Native {
  if (loaded) return loaded;
  if (readBackend() === "onnx")
    throw new UserError(
      "This needs libtorch, but TEMPER_BACKEND is onnx. Remove the variable; `npx temper setup` installs libtorch.",
    );
  const file = getAddonFile();
  if (!existsSync(file))
    throw new UserError(
      `This needs libtorch, but the native addon is not built: ${file} is missing. Run \`npx temper setup\`, or \`make ` +
        "setup` in a checkout.",
    );
  // GNU OpenMP threads spin for milliseconds while they wait for each other. On a shared host they
  // may spin for a thread that is not running, and a forward pass takes several times as long. A
  // count of 1000 (about 20 us) bridges the gap to the next operator.
  process.env.GOMP_SPINCOUNT ??= "1000";
  // oneDNN caches 1000 compiled products by default, one per shape. An attack has about 1000
  // shapes, so the cache would use half a gigabyte without saving time.
  process.env.ONEDNN_PRIMITIVE_CACHE_CAPACITY ??= "64";
  process.env.LRU_CACHE_CAPACITY ??= "64";
  try {
    loaded = createRequire(import.meta.url)(file) as Native;
    checkAbi(loaded);
    limitInstructions(loaded);
  } catch (error) {
    loaded = undefined;
    if (error instanceof UserError) throw error;
    if (getErrorCode(error) === "ERR_TEMPER_THREAD") throw new UserError(getErrorMessage(error), { cause: error });
    throw new UserError(
      `The native addon ${file} does not load: ${getErrorMessage(error)}. Run \`make setup\` or \`npx temper setup\`.`,
    );
  }
  return loaded;
}

export function getLoadedNative(): Native | undefined {
  return loaded;
}

/** Returns true if libtorch can compute here: the addon loads, and TEMPER_BACKEND does not forbid it. */
export function hasNative(): boolean {
  try {
    native();
    return true;
  } catch (error) {
    if (error instanceof UserError) return false;
    throw error;
  }
}

/** Keeps oneDNN from instructions that the processor reports but cannot execute. */
function limitInstructions(addon: Native): void {
  const { isaLimit } = findCpuFeatures(addon.cpuid());
  if (isaLimit !== null && readIsaLimit() === null) addon.limitInstructions(isaLimit);
}

/** The addon fits one version of libtorch. Another one may load and compute nonsense. */
function checkAbi(addon: Native): void {
  const { libtorch, configuration, library } = addon.versions();
  const version = /TORCH_VERSION=(\d+\.\d+\.\d+)/.exec(configuration)?.[1];
  if (version !== undefined && !libtorch.startsWith(version))
    throw new UserError(
      `The native addon was compiled for libtorch ${libtorch}, but ${library} is version ${version}. ` +
        "Run `make setup` or `npx temper setup` again.",
    );
}

export function nativeCuda(): NativeCuda {
  const addon = native();
  if (!addon.useStream)
    throw new UserError("The native addon was built without CUDA. Run `temper doctor` to see what is missing.");
  return addon as unknown as NativeCuda;
}

export function nativeDistributed(): NativeDistributed {
  return native() as unknown as NativeDistributed;
}
