// Process-wide settings and statistics of libtorch: threads, TF32, random generators, memory.
import { UserError } from "../base/errors.js";
import { getLoadedNative, type MemoryStats, native, nativeCuda } from "./native.js";
import type { Device } from "./types.js";

export function getMemoryStats(): MemoryStats {
  return native().memoryStats();
}

export function emptyCache(limit = 0): void {
  native().emptyCpuCache(limit);
}

export function emptyAllCaches(): void {
  const addon = getLoadedNative();
  addon?.emptyCpuCache(0);
  if (addon?.useStream) nativeCuda().emptyCache();
}

export function setNumThreads(count: number): void {
  native().setNumThreads(count);
}

export function getNumThreads(): number {
  return native().getNumThreads();
}

/** Sets whether float32 matrix products on a GPU may round to TF32, for this process. */
export function allowTf32(allowed: boolean): void {
  nativeCuda().allowTf32(allowed);
}

/** Returns true if float32 products on a GPU may use TF32. It changes results, so cache keys contain it. */
export function isTf32Allowed(): boolean {
  return native().useStream !== undefined && nativeCuda().isTf32Allowed();
}

/** Seeds the default generator of a device, which dropout and fused attention use. */
export function seedGenerator(device: Device, seed: number): void {
  native().seed(device, seed);
}

/** Checks that a device exists. Without a name, returns the first GPU, or the CPU. */
export function chooseDevice(name?: string): Device {
  const gpus = native().devices().length;
  if (name === undefined) return gpus > 0 ? "cuda" : "cpu";
  const match = /^(?:cpu|cuda(?::(\d+))?)$/.exec(name);
  if (!match) throw new UserError(`device: expected cpu, cuda or cuda:N, received "${name}"`);
  if (name !== "cpu" && Number(match[1] ?? 0) >= gpus) {
    const available = gpus === 0 ? "no GPU" : gpus === 1 ? "only cuda:0" : `only cuda:0 to cuda:${gpus - 1}`;
    throw new UserError(`device: ${name} is not available; found ${available}. Run \`temper doctor\` for details.`);
  }
  return name as Device;
}
