import { describe, expect, it } from "vitest";
import {
  clipGradNorm_,
  crossEntropy,
  globalNorm,
  klDivergence,
  klDivergencePerExample,
  symmetricKl,
} from "../../src/nn/index.js";
import { scope, type Tensor, tensor, zeros } from "../../src/tensor/index.js";
import reference from "../fixtures/nn.json" with { type: "json" };
import { expectClose } from "../rounding.js";
import { checkGradients } from "./finite-difference.js";

const { losses, clipping } = reference;

describe("losses", () => {
  const p = (): Tensor => tensor(losses.p, [4, 3]);
  const q = (): Tensor => tensor(losses.q, [4, 3]);
  const labels = (count = 4): Tensor => tensor(Int32Array.from(losses.labels.slice(0, count)));

  it("match PyTorch", () =>
    scope(() => {
      expectClose(crossEntropy(p(), labels()).item(), losses.crossEntropy);
      // The terms of a divergence cancel. Logarithms of about 3 are subtracted.
      expectClose(klDivergence(p(), q()).item(), losses.divergence, { scale: 3 });
      expectClose(symmetricKl(p(), q()).item(), losses.symmetricDivergence, { scale: 3 });
    }));

  it("match finite differences for both arguments", () => {
    checkGradients([[3, 3]], (logits) => crossEntropy(logits, labels(3)));
    for (const loss of [klDivergence, symmetricKl, klDivergencePerExample])
      checkGradients(
        [
          [3, 4],
          [3, 4],
        ],
        (first, second) => loss(first, second),
      );
  });

  it("are 0 for equal logits and ignore a constant shift", () =>
    scope(() => {
      expect(klDivergence(p(), p()).item()).toBe(0);
      // The shifted logits are rounded at a size of about 8.
      expectClose(symmetricKl(p(), p().add(5)).item(), 0, { terms: 4, scale: 8 });
      expect([...klDivergencePerExample(p(), q()).shape]).toEqual([4]);
    }));

  it("are finite for logits far apart", () =>
    scope(() => {
      const far = tensor([1000, -1000], [1, 2]);
      const other = tensor([-1000, 1000], [1, 2]);
      expect(symmetricKl(far, other).item()).toBe(4000);
      expect(crossEntropy(far, tensor(new Int32Array([1]))).item()).toBe(2000);
    }));

  it("name a label that is out of range", () => {
    expect(() => scope(() => crossEntropy(zeros([1, 2]), tensor(new Int32Array([2]))))).toThrow(
      /cross_entropy_loss.*Target 2/,
    );
  });
});

describe("clipGradNorm_", () => {
  it.each(clipping.cases)("matches PyTorch with a maximum norm of $limit", ({ limit, norm, clipped }) =>
    scope(() => {
      const gradients = clipping.gradients.map((values, i) => tensor(values, i === 0 ? [3, 2] : [4]));
      expectClose(clipGradNorm_(gradients, limit).item(), norm);
      for (const [i, gradient] of gradients.entries()) expectClose(gradient, clipped[i]!);
    }),
  );

  it("does not change zero gradients", () =>
    scope(() => {
      const gradient = zeros([3]);
      expect(clipGradNorm_([gradient], 1).item()).toBe(0);
      expect([...gradient.toFloat32Array()]).toEqual([0, 0, 0]);
      expect(globalNorm([tensor([3]), tensor([4])]).item()).toBe(5);
    }));
});
