import { type Device, type Rng, seedGenerator, useCapturableStream } from "../tensor/index.js";
import { type NativeCuda, nativeCuda } from "../tensor/native.js";

/**
 * The random streams of a run's steps. Dropout and fused attention draw from the device's default generator and take no other, so
 * that generator is pointed at a stream of its own at the start of each named part of a step.
 */
export interface RandomStreams {
  enter(step: number, names: readonly string[]): void;
}

export function createRandomStreams(rng: Rng, device: Device): RandomStreams {
  if (device === "cpu") return { enter: (step, names) => seedGenerator(device, computeStreamSeed(rng, step, names)) };
  useCapturableStream(device);
  return new CudaRandomStreams(rng);
}

function computeStreamSeed(rng: Rng, step: number, names: readonly string[]): number {
  return rng.fork("step", step, ...names).seed();
}

/** A part of a step that draws, relative to the step that it was recorded in. */
interface EnteredStream {
  readonly state: number;
  readonly offset: number;
  readonly names: readonly string[];
}

/**
 * On a GPU every named part has a generator state of its own, whose seed a recorded graph reads at each replay. So a replayed step
 * draws exactly what the same step would draw when run operator by operator.
 */
export class CudaRandomStreams implements RandomStreams {
  readonly #rng: Rng;
  readonly #generators: Pick<NativeCuda, "enterRandom" | "seedRandom">;
  readonly #states = new Map<string, number>();
  readonly #times = new Map<string, number>();
  #base = 0;
  #step = -1;
  #entered: Map<number, EnteredStream> | null = null;

  constructor(rng: Rng, generators: Pick<NativeCuda, "enterRandom" | "seedRandom"> = nativeCuda()) {
    this.#rng = rng;
    this.#generators = generators;
  }

  enter(step: number, names: readonly string[]): void {
    if (step !== this.#step) this.#times.clear();
    this.#step = step;
    // Outside of `watch` nothing is recorded: one step's states serve the next.
    const offset = this.#entered ? step - this.#base : 0;
    // A stream that is entered again starts over (FreeLB's shared masks): within a graph only a state of its own can do that.
    const part = JSON.stringify([offset, ...names]);
    const time = this.#times.get(part) ?? 0;
    this.#times.set(part, time + 1);
    const key = `${part} ${time}`;
    const state = this.#states.get(key) ?? this.#states.size;
    this.#states.set(key, state);
    this.#entered?.set(state, { state, offset, names });
    this.#generators.enterRandom(state, computeStreamSeed(this.#rng, step, names));
  }

  /** Runs a step whose number is `base` and tells which parts of it drew. */
  recordEntered<T>(base: number, body: () => T): { result: T; entered: readonly EnteredStream[] } {
    this.#base = base;
    this.#times.clear();
    this.#entered = new Map();
    try {
      const result = body();
      return { result, entered: [...this.#entered.values()] };
    } finally {
      this.#entered = null;
    }
  }

  /** Seeds the parts of a recorded step for its replay as step `base`. */
  seed(base: number, entered: readonly EnteredStream[]): void {
    for (const { state, offset, names } of entered)
      this.#generators.seedRandom(state, computeStreamSeed(this.#rng, base + offset, names));
  }
}

export type { EnteredStream as Entered };
