import { describe, expect, it } from "vitest";
import {
  backward,
  emptyCache,
  free,
  getAccumulatedGrad,
  getMemoryStats,
  keep,
  scope,
  type Tensor,
  tensor,
  zeros,
} from "../../src/tensor/index.js";

const live = (): number => getMemoryStats().tensors;

describe("scope", () => {
  it("frees what was made inside, and passes on what is returned", () => {
    const before = live();
    const result = scope(() => {
      const a = zeros([2]);
      return a.add(1).mul(3);
    });
    expect(live()).toBe(before + 1);
    expect([...result.toFloat32Array()]).toEqual([3, 3]);
    free(result);
    expect(live()).toBe(before);
  });

  it("finds tensors inside arrays, maps and plain objects", () => {
    const before = live();
    const result = scope(() => {
      zeros([9]);
      return { list: [zeros([1]), { deep: zeros([2]) }], map: new Map([["x", zeros([3])]]), nothing: null, number: 4 };
    });
    expect(live()).toBe(before + 3);
    expect((result.map.get("x") as Tensor).shape).toEqual([3]);
    free(result);
    expect(live()).toBe(before);
  });

  it("nests: what an inner one returns belongs to the outer one", () => {
    const before = live();
    scope(() => {
      const inner = scope(() => scope(() => zeros([2])).add(1));
      expect(live()).toBe(before + 1);
      expect([...inner.toFloat32Array()]).toEqual([1, 1]);
    });
    expect(live()).toBe(before);
  });

  it("frees everything where the body throws, and passes the error on", () => {
    const before = live();
    const failing = (): void =>
      scope(() => {
        const a = zeros([2]);
        scope(() => {
          zeros([3]);
          throw new RangeError(`mine ${a.shape}`);
        });
      });
    expect(failing).toThrow(new RangeError("mine 2"));
    expect(live()).toBe(before);
    // The scopes around are as they were: a new tensor belongs to nobody.
    const outside = zeros([1]);
    expect(outside.toFloat32Array()).toHaveLength(1);
    free(outside);
  });

  it("frees what a failing operator was given", () => {
    const before = live();
    expect(() => scope(() => zeros([2]).add(zeros([3])))).toThrow(/^aten::add\.Tensor\(Float\[2\], Float\[3\]\): /);
    expect(live()).toBe(before);
  });

  it("refuses an asynchronous body", () => {
    const before = live();
    expect(() =>
      scope(async () => {
        zeros([2]);
      }),
    ).toThrow("synchronous body");
    expect(live()).toBe(before);
  });

  it("a tensor used after its scope is an error, never another tensor", () => {
    let escaped: Tensor | undefined;
    scope(() => {
      escaped = zeros([2]);
    });
    const other = zeros([2]);
    expect(() => escaped?.toFloat32Array()).toThrow("not a tensor handle");
    expect(() => escaped?.add(1)).toThrow("aten::add.Scalar: argument self");
    free(other);
  });
});

describe("keep and free", () => {
  it("a kept tensor outlives its scope, until it is freed", () => {
    const before = live();
    const kept = scope(() => {
      const inside = keep({ weight: zeros([2]), other: [zeros([3])] });
      zeros([4]);
      return inside.weight;
    });
    expect(live()).toBe(before + 2);
    expect(kept.shape).toEqual([2]);
    free(kept);
    expect(live()).toBe(before + 1);
  });

  it("freeing twice is freeing once", () => {
    const made = zeros([2]);
    const before = live();
    free(made);
    free(made);
    free([made, null, 3, "x"]);
    expect(live()).toBe(before - 1);
  });

  it("freed inside its scope, a tensor is not freed again at the end", () => {
    const before = live();
    scope(() => {
      const made = zeros([2]);
      free(made);
      zeros([2]); // takes the slot that was freed
      expect(live()).toBe(before + 1);
    });
    expect(live()).toBe(before);
  });

  it("freeing what a graph needs does not break backward", () => {
    const leaf = tensor([1, 2, 3]).requiresGrad_();
    const loss = scope(() => {
      const middle = leaf.square();
      const sum = middle.mul(middle).sum();
      free(middle);
      return sum;
    });
    scope(() => {
      backward(loss);
      expect([...(getAccumulatedGrad(leaf) as Tensor).toFloat32Array()]).toEqual([4, 32, 108]);
    });
    free([leaf, loss]);
  });
});

describe("memory", () => {
  it("counts live tensors and bytes, and what is kept for reuse", () => {
    emptyCache();
    const before = getMemoryStats();
    const large = zeros([1 << 20]);
    const during = getMemoryStats();
    expect(during.tensors).toBe(before.tensors + 1);
    expect(during.bytes - before.bytes).toBeGreaterThanOrEqual(4 << 20);
    expect(during.bytes - before.bytes).toBeLessThan(5 << 20);
    expect(during.peakBytes).toBeGreaterThanOrEqual(during.bytes);
    expect(during.availableBytes).toBeGreaterThan(1 << 20);
    free(large);
    const after = getMemoryStats();
    expect(after.bytes).toBe(before.bytes);
    expect(after.cachedBytes).toBeGreaterThanOrEqual(4 << 20);
    emptyCache();
    expect(getMemoryStats().cachedBytes).toBe(0);
  });
});
