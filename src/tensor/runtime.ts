import { type Memory, native } from "./native.js";
import { Tensor } from "./tensor.js";
import type { Device } from "./types.js";

/** Live tensors and bytes: a step that leaves more than it found leaks. */
export function memory(): Memory {
  return native().memory();
}

/** Gives memory kept for reuse back to the system. */
export function dropCachedMemory(): void {
  native().dropCache();
}

/** Threads of libtorch and of its BLAS. */
export function setThreads(count: number): void {
  native().setThreads(count);
}

export function threads(): number {
  return native().threads();
}

/** Seeds the default generator of a device: dropout and fused attention draw from no other. */
export function seedGenerator(device: Device, seed: number): void {
  native().seed(device, seed);
}

export function generatorState(device: Device): Tensor {
  return new Tensor(native().generatorState(device));
}

export function setGeneratorState(device: Device, state: Tensor): void {
  native().setGeneratorState(device, state.handle);
}
