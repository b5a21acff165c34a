import { describe, expect, it } from "vitest";
import {
  emptyCache,
  free,
  getMemoryStats,
  grad,
  keep,
  scope,
  type Tensor,
  tensor,
  zeros,
} from "../../src/tensor/index.js";

const live = (): number => getMemoryStats().tensors;

describe("scope", () => {
  it("frees tensors created inside, except the returned ones", () => {
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

  it("nests: a tensor returned by an inner scope belongs to the outer one", () => {
    const before = live();
    scope(() => {
      const inner = scope(() => scope(() => zeros([2])).add(1));
      expect(live()).toBe(before + 1);
      expect([...inner.toFloat32Array()]).toEqual([1, 1]);
    });
    expect(live()).toBe(before);
  });

  it("frees everything if the body throws, and rethrows the error", () => {
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
    // The outer scopes are unchanged, so a new tensor belongs to no scope.
    const outside = zeros([1]);
    expect(outside.toFloat32Array()).toHaveLength(1);
    free(outside);
  });

  it("frees the arguments of an operator that fails", () => {
    const before = live();
    expect(() => scope(() => zeros([2]).add(zeros([3])))).toThrow(/^aten::add\.Tensor\(Float\[2\], Float\[3\]\): /);
    expect(live()).toBe(before);
  });

  it("rejects an async function", () => {
    const before = live();
    expect(() =>
      scope(async () => {
        zeros([2]);
      }),
    ).toThrow("synchronous function");
    expect(live()).toBe(before);
  });

  it("using a tensor after its scope is an error, even if its slot is reused", () => {
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
  it("a kept tensor lives until it is freed", () => {
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

  it("freeing twice has no effect", () => {
    const created = zeros([2]);
    const before = live();
    free(created);
    free(created);
    free([created, null, 3, "x"]);
    expect(live()).toBe(before - 1);
  });

  it("a tensor that is freed inside its scope is not freed again at the end", () => {
    const before = live();
    scope(() => {
      const created = zeros([2]);
      free(created);
      zeros([2]); // reuses the freed slot
      expect(live()).toBe(before + 1);
    });
    expect(live()).toBe(before);
  });

  it("freeing a tensor that the graph needs does not break backward", () => {
    const leaf = tensor([1, 2, 3]).requiresGrad_();
    const loss = scope(() => {
      const middle = leaf.square();
      const sum = middle.mul(middle).sum();
      free(middle);
      return sum;
    });
    scope(() => {
      const [gradient] = grad(loss, [leaf]) as [Tensor];
      expect([...gradient.toFloat32Array()]).toEqual([4, 32, 108]);
    });
    free([leaf, loss]);
  });
});

describe("memory statistics", () => {
  it.skipIf(process.env.TEMPER_ASAN)("count live tensors, their bytes and cached bytes", () => {
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

  it.skipIf(process.env.TEMPER_ASAN)("has freed blocks of many sizes only as far as they were in use at once", () => {
    emptyCache();
    const peak = Math.max(getMemoryStats().peakBytes, 128 << 20);
    for (let round = 0; round < 400; round++) scope(() => void zeros([(1 << 20) + round * 40_000]));
    const { cachedBytes, bytes } = getMemoryStats();
    expect(cachedBytes + bytes).toBeLessThanOrEqual(1.125 * Math.max(getMemoryStats().peakBytes, peak));
    // A block serves tensors that are a little smaller.
    scope(() => void zeros([1 << 24]));
    const before = getMemoryStats().cachedBytes;
    scope(() => {
      zeros([Math.floor(0.9 * (1 << 24))]);
      expect(getMemoryStats().cachedBytes).toBeLessThan(before);
    });
    expect(getMemoryStats().cachedBytes).toBe(before);
    emptyCache();
  });
});
