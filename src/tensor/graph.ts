import { UserError } from "../base/errors.js";
import { nativeCuda } from "./native.js";
import { operator } from "./operator.js";
import { free } from "./scope.js";
import type { Tensor } from "./tensor.js";
import { type Device, type DType, dtypeCodes, getGpuIndex } from "./types.js";

const emptyPinnedOp = operator<
  (shape: readonly number[], dtype: number, layout: undefined, device: "cpu", pinned: boolean) => Tensor
>("empty", "memory_format");

/** Allocates page-locked memory, from which a GPU can copy while the host continues. */
export function allocatePinned(shape: readonly number[], dtype: DType): Tensor {
  return emptyPinnedOp(shape, dtypeCodes[dtype], undefined, "cpu", true);
}

export interface CudaGraph {
  replay(): void;
  free(): void;
}

/**
 * Captures the GPU work of `body` without running it. The body must not wait, and its inputs must
 * stay at the same address. Every replay fills the result.
 */
export function captureGraph<T>(states: readonly number[], body: () => T): { graph: CudaGraph; result: T } {
  const cuda = nativeCuda();
  cuda.graphBegin(states);
  let result: T;
  try {
    result = body();
  } catch (error) {
    cuda.graphAbort();
    throw error;
  }
  let id: number;
  try {
    id = cuda.graphEnd();
  } catch (error) {
    free(result);
    throw error;
  }
  return { graph: { replay: () => cuda.graphReplay(id), free: () => cuda.graphFree(id) }, result };
}

/** A kernel over one tensor leaves most of a GPU idle, but more than 16 at once are not faster. */
const maxParallelStreams = 16;

/**
 * Runs independent tasks: on parallel streams of a GPU, one after the other on a CPU. On a GPU they
 * must work in place, because streams do not know each other's allocations.
 */
export function runOnParallelStreams(device: string, tasks: readonly (() => void)[]): void {
  if (device === "cpu" || tasks.length < 2) {
    for (const task of tasks) task();
    return;
  }
  const cuda = nativeCuda();
  const count = Math.min(maxParallelStreams, tasks.length);
  cuda.branchesFork(count);
  try {
    for (const [i, task] of tasks.entries()) {
      cuda.branchEnter(i % count);
      task();
    }
  } finally {
    cuda.branchesJoin(count);
  }
}

/** The GPU whose stream this process uses. CUDA itself has one current device per process. */
let streamDevice: number | null = null;

/** Selects the GPU of this process and a stream for graphs. Random states belong to one GPU. */
export function useCapturableStream(device: Device): void {
  const index = getGpuIndex(device);
  if (streamDevice === index) return;
  if (streamDevice !== null)
    throw new UserError(
      `device: this process already uses cuda:${streamDevice}, received ${device}. Use a separate process per GPU.`,
    );
  nativeCuda().useStream(index);
  streamDevice = index;
}

export function synchronize(): void {
  nativeCuda().synchronize();
}
