import { UserError } from "../errors.js";
import { nativeCuda } from "./native.js";
import { operator } from "./operator.js";
import { free } from "./scope.js";
import type { Tensor } from "./tensor.js";
import { type Device, type DType, dtypeCodes, getGpuIndex } from "./types.js";

const emptyPinnedOp = operator<
  (shape: readonly number[], type: number, layout: undefined, device: "cpu", pinned: boolean) => Tensor
>("empty", "memory_format");

/** An uninitialised CPU tensor in page-locked memory, which a GPU can copy from while the host goes on. */
export function allocatePinned(shape: readonly number[], type: DType): Tensor {
  return emptyPinnedOp(shape, dtypeCodes[type], undefined, "cpu", true);
}

/** Work recorded once and replayed: all its launches in one. */
export interface CudaGraph {
  replay(): void;
  free(): void;
}

/**
 * Records the GPU work of `body` without doing it. The body must not wait for the device, and finds its inputs in tensors that keep
 * their place. `states` are the random states it enters. What it returns is filled by every replay.
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

/** Kernels over one tensor leave most of a GPU idle; more than this many at once gain nothing. */
const maxParallelStreams = 16;

/**
 * Runs tasks that do not touch each other's tensors: side by side on a GPU, recorded or not, one after the other elsewhere. On a GPU
 * they must work in place, since memory that a branch takes is not known to the others.
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

let streamDevice: number | null = null;

/**
 * Makes a GPU the process's own, with a stream that can be recorded; once is enough. Random states and recordings belong to the
 * current GPU, so a process that records has one.
 */
export function useCapturableStream(device: Device): void {
  const index = getGpuIndex(device);
  if (streamDevice === index) return;
  if (streamDevice !== null)
    throw new UserError(
      `device: this process works on cuda:${streamDevice} already, received ${device}; run what is for another GPU in a process of its own`,
    );
  nativeCuda().useStream(index);
  streamDevice = index;
}

/** Waits until the GPU has done all it was given. */
export function synchronize(): void {
  nativeCuda().synchronize();
}
