import { expect, test } from "vitest";
import { Rng } from "../../src/tensor/index.js";
import { CudaRandomStreams } from "../../src/train/random-streams.js";

/** The generators of a simulated GPU, with the last seed of each state. */
function createGenerators() {
  const seeds = new Map<number, number>();
  const setSeed = (state: number, seed: number): void => void seeds.set(state, seed);
  return { seeds, enterRandom: setSeed, seedRandom: setSeed };
}

test("a run of any length reuses the random states of one batch", () => {
  const gpu = createGenerators();
  const streams = new CudaRandomStreams(new Rng(1), gpu);
  // Without captured graphs, as in Child-Tuning's pass over all data.
  for (let step = 0; step < 10_000; step++) for (const name of ["clean", "again", "clean"]) streams.enter(step, [name]);
  expect(gpu.seeds.size).toBe(3);
});
