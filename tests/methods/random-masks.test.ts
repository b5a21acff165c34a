import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleMasks } from "../../src/nn/index.js";
import { scope, seedGenerator, setNumThreads, type Tensor } from "../../src/tensor/index.js";

const sample = (p: number, seed: number, size = 40_000): Float32Array =>
  scope(() => {
    seedGenerator("cpu", seed);
    const [mask] = sampleMasks([[size]], p, "cpu") as [Tensor];
    return mask.mul(p).toFloat32Array();
  });

describe("random masks", () => {
  test("select elements with the given probability, and all of them for 1", () => {
    fc.assert(
      fc.property(fc.double({ min: 0.01, max: 1, noNaN: true }), fc.nat(1000), (p, seed) => {
        const mask = sample(p, seed);
        const fraction = mask.reduce((sum, value) => sum + value, 0) / mask.length;
        // Six standard deviations: one sample in a billion would fail by chance.
        expect(Math.abs(fraction - p)).toBeLessThanOrEqual(6 * Math.sqrt((p * (1 - p)) / mask.length));
      }),
      { numRuns: 50 },
    );
    expect(sample(1, 3, 100)).toEqual(new Float32Array(100).fill(1));
  });

  test("depend only on the seed, not on the thread count", () => {
    setNumThreads(1);
    const single = sample(0.3, 7);
    setNumThreads(2);
    expect(sample(0.3, 7)).toEqual(single);
    expect(sample(0.3, 8)).not.toEqual(single);
  });
});
