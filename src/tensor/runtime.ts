import { UserError } from "../errors.js";
import { type MemoryStats, native, nativeCuda } from "./native.js";
import { Tensor } from "./tensor.js";
import type { Device } from "./types.js";

/** Live tensors and bytes: a step that leaves more than it found leaks. */
export function getMemoryStats(): MemoryStats {
  return native().memory();
}

/** Gives memory kept for reuse back to the system. */
export function emptyCache(): void {
  native().dropCache();
}

/** Threads of libtorch and of its BLAS. */
export function setNumThreads(count: number): void {
  native().setThreads(count);
}

export function getNumThreads(): number {
  return native().threads();
}

let tf32 = false;

/** Whether a GPU's float32 products may round what they multiply to TF32. */
export function allowTf32(on: boolean): void {
  nativeCuda().allowTf32(on);
  tf32 = on;
}

/** What float32 means on this process's GPU: it decides numbers in the third digit, so caches must know. */
export function isTf32Allowed(): boolean {
  return tf32;
}

/** Seeds the default generator of a device: dropout and fused attention draw from no other. */
export function seedGenerator(device: Device, seed: number): void {
  native().seed(device, seed);
}

export function getGeneratorState(device: Device): Tensor {
  return new Tensor(native().generatorState(device));
}

export function setGeneratorState(device: Device, state: Tensor): void {
  native().setGeneratorState(device, state.handle);
}

/** The device a user named, if the engine can use it; where none was named, the first GPU, or else the CPU. */
export function chooseDevice(name?: string): Device {
  const gpus = native().devices().length;
  if (name === undefined) return gpus > 0 ? "cuda" : "cpu";
  const match = /^(?:cpu|cuda(?::(\d+))?)$/.exec(name);
  if (!match) throw new UserError(`device: expected cpu, cuda or cuda:N, received "${name}"`);
  if (name !== "cpu" && Number(match[1] ?? 0) >= gpus) {
    const there =
      gpus === 0 ? "no GPU" : `${gpus} GPU${gpus === 1 ? "" : "s"}, cuda:0${gpus === 1 ? "" : ` to cuda:${gpus - 1}`}`;
    throw new UserError(
      `device: the engine has ${there}, received ${name}; \`temper doctor\` says what is there and what is missing`,
    );
  }
  return name as Device;
}
