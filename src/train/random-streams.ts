import { type Device, type Rng, seedGenerator, useCapturableStream } from "../tensor/index.js";
import { type NativeCuda, nativeCuda } from "../tensor/native.js";

/**
 * The random streams of a training. Dropout and fused attention always use the device's default
 * generator, so the generator is seeded again at the start of each named part of a batch.
 */
export interface RandomStreams {
  enter(batchIndex: number, names: readonly string[]): void;
}

export function createRandomStreams(rng: Rng, device: Device): RandomStreams {
  if (device === "cpu")
    return { enter: (batchIndex, names) => seedGenerator(device, computeStreamSeed(rng, batchIndex, names)) };
  useCapturableStream(device);
  return new CudaRandomStreams(rng);
}

function computeStreamSeed(rng: Rng, batchIndex: number, names: readonly string[]): number {
  return rng.fork("step", batchIndex, ...names).seed();
}

export interface EnteredStream {
  readonly state: number;
  /** Batch index relative to the first batch of the step. */
  readonly offset: number;
  readonly names: readonly string[];
}

/**
 * On a GPU every stream has a separate generator state. A captured graph reads the seed of that
 * state at each replay, so a replayed step draws the same numbers as an eager one.
 */
export class CudaRandomStreams implements RandomStreams {
  readonly #rng: Rng;
  readonly #generators: Pick<NativeCuda, "enterRandom" | "seedRandom">;
  readonly #states = new Map<string, number>();
  readonly #entryCounts = new Map<string, number>();
  #firstBatchIndex = 0;
  #batchIndex = -1;
  #entered: Map<number, EnteredStream> | null = null;

  constructor(rng: Rng, generators: Pick<NativeCuda, "enterRandom" | "seedRandom"> = nativeCuda()) {
    this.#rng = rng;
    this.#generators = generators;
  }

  enter(batchIndex: number, names: readonly string[]): void {
    if (batchIndex !== this.#batchIndex) this.#entryCounts.clear();
    this.#batchIndex = batchIndex;
    // Outside of `recordEntered`, every batch reuses the same states.
    const offset = this.#entered ? batchIndex - this.#firstBatchIndex : 0;
    // A stream that is entered again starts over, with another state in a graph.
    const stream = JSON.stringify([offset, ...names]);
    const count = this.#entryCounts.get(stream) ?? 0;
    this.#entryCounts.set(stream, count + 1);
    const key = `${stream} ${count}`;
    const state = this.#states.get(key) ?? this.#states.size;
    this.#states.set(key, state);
    this.#entered?.set(state, { state, offset, names });
    this.#generators.enterRandom(state, computeStreamSeed(this.#rng, batchIndex, names));
  }

  /** Runs the step that starts at a batch and returns the streams that it entered. */
  recordEntered<T>(firstBatchIndex: number, body: () => T): { result: T; entered: readonly EnteredStream[] } {
    this.#firstBatchIndex = firstBatchIndex;
    this.#entryCounts.clear();
    this.#entered = new Map();
    try {
      const result = body();
      return { result, entered: [...this.#entered.values()] };
    } finally {
      this.#entered = null;
    }
  }

  seed(firstBatchIndex: number, entered: readonly EnteredStream[]): void {
    for (const { state, offset, names } of entered)
      this.#generators.seedRandom(state, computeStreamSeed(this.#rng, firstBatchIndex + offset, names));
  }
}
