import { expect, test } from "vitest";
import { Rng } from "../../src/tensor/index.js";
import { CudaRandomStreams } from "../../src/train/random-streams.js";

/** The generators of a GPU: which states were asked for, and what each was last seeded with. */
function generators() {
  const seeds = new Map<number, number>();
  const note = (state: number, seed: number): void => void seeds.set(state, seed);
  return { seeds, enterRandom: note, seedRandom: note };
}

test("a run of any length makes do with the random states of one step", () => {
  const gpu = generators();
  const streams = new CudaRandomStreams(new Rng(1), gpu);
  // Child-Tuning's pass over all data, or a run without graphs: nothing is recorded.
  for (let step = 0; step < 10_000; step++) for (const name of ["clean", "again", "clean"]) streams.enter(step, [name]);
  expect(gpu.seeds.size).toBe(3);
});

test("a replayed update draws what the same update would draw operator by operator", () => {
  const [eager, replayed] = [generators(), generators()];
  const steps = (streams: CudaRandomStreams, base: number): void => {
    for (const step of [base, base + 1])
      for (const name of ["clean", "clean", "adversary"]) streams.enter(step, [name]);
  };
  const recorded = new CudaRandomStreams(new Rng(1), replayed);
  const { entered } = recorded.recordEntered(4, () => steps(recorded, 4));
  recorded.seed(10, entered);
  const plain = new CudaRandomStreams(new Rng(1), eager);
  plain.recordEntered(10, () => steps(plain, 10));
  expect(replayed.seeds).toEqual(eager.seeds);
  expect(new Set(eager.seeds.values()).size).toBe(4);
});
