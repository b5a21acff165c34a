import { describe, expect, it } from "vitest";
import { grad, gradOrNull, noGrad, scope, type Tensor, tensor } from "../../src/tensor/index.js";

const leaf = (...values: number[]): Tensor => tensor(values).requiresGrad_();

describe("grad", () => {
  it("returns the gradients of chosen inputs", () =>
    scope(() => {
      const a = leaf(1, 2);
      const b = leaf(3, 4);
      const [gradB, gradA] = grad(a.mul(a).mul(b).sum(), [b, a]) as [Tensor, Tensor];
      expect([...gradA.toFloat32Array()]).toEqual([6, 16]);
      expect([...gradB.toFloat32Array()]).toEqual([1, 4]);
    }));

  it("accepts several outputs and their gradients", () =>
    scope(() => {
      const a = leaf(1, 2);
      const [both] = grad([a.sum(), a.mul(3).sum()], [a]) as [Tensor];
      expect([...both.toFloat32Array()]).toEqual([4, 4]);
      const [weighted] = grad(a.square(), [a], { gradOutputs: [tensor([10, 100])] }) as [Tensor];
      expect([...weighted.toFloat32Array()]).toEqual([20, 400]);
    }));

  it("rejects an unused input; gradOrNull returns null for it", () =>
    scope(() => {
      const a = leaf(1);
      const unused = leaf(2);
      expect(() => grad(a.mul(2).sum(), [a, unused])).toThrow(/not have been used/);
      const [gradA, gradUnused] = gradOrNull(a.mul(2).sum(), [a, unused]);
      expect([...(gradA as Tensor).toFloat32Array()]).toEqual([2]);
      expect(gradUnused).toBeNull();
    }));

  it("rejects tensors without gradient history", () =>
    scope(() => {
      expect(() => grad(tensor([1]).sum(), [tensor([1])])).toThrow(/does not require grad/);
      expect(() => grad(leaf(1, 2), [leaf(1)])).toThrow();
    }));

  it("needs retainGraph for a second backward pass", () =>
    scope(() => {
      const a = leaf(3);
      const loss = a.square().sum();
      const first = grad(loss, [a], { retainGraph: true })[0] as Tensor;
      const second = grad(loss, [a])[0] as Tensor;
      expect(first.item()).toBe(second.item());
      expect(() => grad(loss, [a])).toThrow(/second time/);
    }));

  it("computes second derivatives with createGraph", () =>
    scope(() => {
      const a = leaf(2);
      const first = grad(a.pow(3).sum(), [a], { createGraph: true })[0] as Tensor;
      expect(first.item()).toBe(12);
      expect((grad(first.sum(), [a])[0] as Tensor).item()).toBe(12);
    }));
});

describe("gradient recording", () => {
  it("is off in noGrad, and restored after an error", () =>
    scope(() => {
      const a = leaf(1);
      expect(noGrad(() => a.mul(2)).requiresGrad).toBe(false);
      expect(() =>
        noGrad(() => {
          throw new Error("mine");
        }),
      ).toThrow("mine");
      expect(a.mul(2).requiresGrad).toBe(true);
      expect(a.mul(2).detach().requiresGrad).toBe(false);
    }));
});
