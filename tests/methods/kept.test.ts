import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleMask } from "../../src/methods/masks.js";
import { scope, seedGenerator, setNumThreads, type Tensor } from "../../src/tensor/index.js";

const draw = (part: number, seed: number, size = 40_000): Float32Array =>
  scope(() => {
    seedGenerator("cpu", seed);
    const [kept] = sampleMask([[size]], part, "cpu") as [Tensor];
    return kept.mul(part).toFloat32Array();
  });

describe("elements kept at random", () => {
  test("are about the part that was asked for, and all of them for 1", () => {
    fc.assert(
      fc.property(fc.double({ min: 0.01, max: 1, noNaN: true }), fc.nat(1000), (part, seed) => {
        const kept = draw(part, seed);
        const share = kept.reduce((sum, value) => sum + value, 0) / kept.length;
        // Six standard deviations: one draw in a billion would fail by luck.
        expect(Math.abs(share - part)).toBeLessThanOrEqual(6 * Math.sqrt((part * (1 - part)) / kept.length) + 1e-9);
      }),
      { numRuns: 50 },
    );
    expect(draw(1, 3, 100)).toEqual(new Float32Array(100).fill(1));
  });

  test("hang on the seed alone, whatever the number of threads", () => {
    setNumThreads(1);
    const one = draw(0.3, 7);
    setNumThreads(2);
    expect(draw(0.3, 7)).toEqual(one);
    expect(draw(0.3, 8)).not.toEqual(one);
  });
});
