import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { expectClose } from "../rounding.js";

const sample = (rng: Rng, count = 4): number[] => Array.from({ length: count }, () => rng.bits());

describe("Rng", () => {
  it("returns exactly these numbers, because published results depend on them", () => {
    expect(sample(new Rng(7))).toEqual([1096327518, 432976234, 2251532900, 4099579403]);
    expect(sample(new Rng(7).fork("step", 12, "clean"))).toEqual([1094465469, 3251491111, 1227543833, 506566242]);
    expect(new Rng("text").next()).toBe(0.060663396096415134);
    expectClose(new Rng(1).normal(), 0.01941896716347569, { format: "float64" });
    expect(new Rng(3).shuffle([0, 1, 2, 3, 4, 5, 6, 7])).toEqual([3, 6, 4, 1, 0, 7, 2, 5]);
  });

  it("a fork depends only on its names, not on earlier draws", () => {
    const parent = new Rng(7);
    const early = sample(parent.fork("a"));
    sample(parent, 100);
    expect(sample(parent.fork("a"))).toEqual(early);
    expect(sample(new Rng(7).fork("a"))).toEqual(early);
  });

  it("different names, orders or boundaries of names give different streams", () => {
    const root = new Rng(7);
    const streams = [
      root,
      root.fork("a"),
      root.fork("b"),
      root.fork("ab", "c"),
      root.fork("a", "bc"),
      root.fork("a").fork("a"),
      root.fork(1),
      root.fork(11),
      root.fork("1/1:1"),
      new Rng(8).fork("a"),
    ];
    expect(new Set(streams.map((rng) => sample(rng).join())).size).toBe(streams.length);
  });

  it("forking twice equals forking once with all names", () => {
    expect(sample(new Rng(7).fork("step", 3).fork("clean"))).toEqual(sample(new Rng(7).fork("step", 3, "clean")));
  });

  it("streams with similar names are not correlated", () => {
    const count = 20_000;
    const a = new Rng(0).fork("step", 1);
    const b = new Rng(0).fork("step", 2);
    let product = 0;
    for (let i = 0; i < count; i++) product += (a.next() - 0.5) * (b.next() - 0.5);
    // The standard deviation of the correlation of independent streams is 1 / sqrt(count).
    expect(Math.abs((12 * product) / count)).toBeLessThan(4 / Math.sqrt(count));
  });

  it("next() is uniform", () => {
    const rng = new Rng(5);
    const cells = new Array<number>(100).fill(0);
    const count = 100_000;
    for (let i = 0; i < count; i++) {
      const value = rng.next();
      const cell = Math.floor(value * 100);
      cells[cell] = (cells[cell] as number) + 1;
    }
    expect(cells).toHaveLength(100); // a value outside [0, 1) would add a cell
    const expected = count / 100;
    const chiSquare = cells.reduce((sum, observed) => sum + (observed - expected) ** 2 / expected, 0);
    expect(chiSquare).toBeLessThan(150); // 99 degrees of freedom: exceeds 149 with probability 0.001
    expect(chiSquare).toBeGreaterThan(60);
  });

  it("normal() has mean 0 and standard deviation 1", () => {
    const rng = new Rng(6);
    const values = Array.from({ length: 50_000 }, () => rng.normal());
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    expect(Math.abs(mean)).toBeLessThan(4 / Math.sqrt(values.length));
    expect(Math.abs(variance - 1)).toBeLessThan(4 * Math.sqrt(2 / values.length));
    expect(values.every(Number.isFinite)).toBe(true);
  });

  it("integer() returns every integer in its range", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 1000 }), (seed, n) => {
        const value = new Rng(seed).integer(n);
        return Number.isInteger(value) && value >= 0 && value < n;
      }),
    );
    const rng = new Rng(2);
    expect(new Set(Array.from({ length: 500 }, () => rng.integer(10))).size).toBe(10);
  });

  it("shuffle() permutes in place and depends on the seed", () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.string(), (items, seed) => {
        const shuffled = new Rng(seed).shuffle([...items]);
        expect(shuffled.toSorted((a, b) => a - b)).toEqual(items.toSorted((a, b) => a - b));
        expect(new Rng(seed).shuffle([...items])).toEqual(shuffled);
      }),
    );
    const items = Int32Array.from([1, 2, 3]);
    expect(new Rng(1).shuffle(items)).toBe(items);
  });

  it("shuffle() returns every order equally often", () => {
    const rng = new Rng(9);
    const seen = new Map<string, number>();
    for (let i = 0; i < 6000; i++) {
      const order = rng.shuffle([0, 1, 2]).join("");
      seen.set(order, (seen.get(order) ?? 0) + 1);
    }
    expect(seen.size).toBe(6);
    for (const count of seen.values()) expect(Math.abs(count - 1000)).toBeLessThan(130);
  });

  it("continues from a saved state", () => {
    const rng = new Rng(4);
    sample(rng, 10);
    const { state } = rng;
    const next = sample(rng);
    const other = new Rng("other");
    other.state = state;
    expect(sample(other)).toEqual(next);
  });

  it("seed() returns safe integers for libtorch", () => {
    const seeds = Array.from({ length: 200 }, (_, i) => new Rng(i).seed());
    expect(new Set(seeds).size).toBe(200);
    expect(seeds.every((seed) => Number.isSafeInteger(seed) && seed >= 0)).toBe(true);
  });
});

it("filled indices are those of single draws", () => {
  const indices = new Uint32Array(1000);
  const [one, other] = [new Rng("sums"), new Rng("sums")];
  for (let round = 0; round < 20; round++) {
    const expected = Uint32Array.from(indices, () => one.integer(indices.length));
    other.fillIndices(indices);
    expect(indices).toEqual(expected);
  }
  expect(other.state).toEqual(one.state);
});
