import { type Device, type Rng, seedGenerator } from "../tensor/index.js";

/**
 * The random streams of a run's steps. Dropout and fused attention draw from the device's default generator and take no other, so
 * that generator is seeded anew at the start of each named part of a step.
 */
export interface Streams {
  enter(step: number, names: readonly string[]): void;
}

export function seededStreams(rng: Rng, device: Device): Streams {
  return { enter: (step, names) => seedGenerator(device, rng.fork("step", step, ...names).seed()) };
}
