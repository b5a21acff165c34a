import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { getErrorMessage, UserError } from "../errors.js";

/** An operator as the addon gives it: handles in, handles out. `returns`: T a tensor, L a list of tensors, V a plain value. */
export interface NativeOperator {
  (...args: unknown[]): unknown;
  readonly returns: string;
  readonly schema: string;
}

export interface MemoryStats {
  /** Live handles. */
  tensors: number;
  /** Bytes in CPU tensors, the most there ever were, those kept for reuse, and those still to be had from the machine. */
  bytes: number;
  peakBytes: number;
  cachedBytes: number;
  availableBytes: number;
}

export interface DeviceProperties {
  name: string;
  bytes: number;
  capability: string;
}

/** What native/ exports; docs/engine.md tells why it is shaped so. */
export interface Native {
  op(name: string, overload?: string): NativeOperator;
  create(data: ArrayBufferView, shape: readonly number[], given: number, wanted: number): number;
  write(handle: number, data: ArrayBufferView): void;
  read(handle: number, type: number): ArrayBuffer;
  facts(handle: number): number[];
  address(handle: number): number;
  alias(handle: number): number;
  release(handles: readonly number[]): void;
  grad(
    outputs: readonly number[],
    inputs: readonly number[],
    outputGradients: readonly (number | null)[] | null,
    retainGraph: boolean,
    createGraph: boolean,
    allowUnused: boolean,
  ): (number | null)[];
  backward(outputs: readonly number[], retainGraph: boolean): void;
  accumulated(handle: number): number | null;
  clearAccumulated(handle: number): void;
  setRecording(on: boolean): boolean;
  versions(): { libtorch: string; configuration: string; library: string };
  setThreads(count: number): void;
  threads(): number;
  seed(device: string, seed: number): void;
  generatorState(device: string): number;
  setGeneratorState(device: string, handle: number): void;
  fillDropoutMask(handle: number, p: number): void;
  memory(): MemoryStats;
  dropCache(): void;
  devices(): DeviceProperties[];
  /** Only where this build has CUDA. */
  readonly useStream?: unknown;
}

/** What the addon adds where it was built with CUDA. */
export interface NativeCuda {
  useStream(device: number): void;
  synchronize(): void;
  deviceMemory(device: number): Omit<MemoryStats, "tensors"> & { readonly availableBytes: number };
  emptyCache(): void;
  allowTf32(on: boolean): void;
  enterRandom(state: number, seed: number): void;
  seedRandom(state: number, seed: number): void;
  graphBegin(states: readonly number[]): void;
  graphEnd(): number;
  graphAbort(): void;
  graphReplay(graph: number): void;
  graphFree(graph: number): void;
  eventRecord(event: number): void;
  eventWait(event: number): void;
  branchesFork(count: number): void;
  branchEnter(branch: number): void;
  branchesJoin(count: number): void;
}

/** The folder that holds package.json, from src/ as from dist/. */
export const packageRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** Where set-up puts the addon and its facts; TEMPER_BUILD names another build, such as Debian's libtorch. */
export function getBuildFolder(): string {
  return resolve(packageRoot, process.env.TEMPER_BUILD ?? "build/native");
}

let loaded: Native | undefined;

/** The addon, loaded at first use. */
export function native(): Native {
  if (loaded) return loaded;
  const file = join(getBuildFolder(), "temper.node");
  if (!existsSync(file))
    throw new UserError(
      `the engine is not built: ${file} is missing. Run \`make setup\` in the checkout, or \`npx temper setup\`.`,
    );
  // GNU OpenMP's threads wait for each other spinning, for milliseconds; on a machine that others use too they spin for one that is not
  // even running, and a pass takes several times as long. This many turns (some 20 us) bridge the gap to the next operator.
  process.env.GOMP_SPINCOUNT ??= "1000";
  // oneDNN keeps a thousand compiled products, one a shape, and an attack meets a thousand shapes: half a gigabyte that saves no time.
  process.env.ONEDNN_PRIMITIVE_CACHE_CAPACITY ??= "64";
  process.env.LRU_CACHE_CAPACITY ??= "64";
  try {
    loaded = createRequire(import.meta.url)(file) as Native;
  } catch (error) {
    throw new UserError(
      `the engine at ${file} does not load: ${getErrorMessage(error)}. Run \`make setup\` (or \`npx temper setup\`) to build it again.`,
    );
  }
  return loaded;
}

/** The addon's CUDA part; an error in a build without it. */
export function nativeCuda(): NativeCuda {
  const engine = native();
  if (!engine.useStream)
    throw new UserError("this engine was built without CUDA; run `temper doctor` for what is missing");
  return engine as unknown as NativeCuda;
}
