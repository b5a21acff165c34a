import { describe, expect, test } from "vitest";
import { alignSeeds, compareModels, type ExampleOutcomes, type ModelOutcomes } from "../../src/evaluation/compare.js";

/** "1101" as outcomes of examples 0, 1, …. */
const outcomes = (bits: string, from = 0): ExampleOutcomes =>
  new Map([...bits].map((bit, i) => [`e${from + i}`, bit === "1"]));
const side = (name: string, ...seeds: Record<string, ExampleOutcomes>[]): ModelOutcomes => ({
  name,
  outcomesPerSeed: seeds.map((seed) => new Map(Object.entries(seed))),
});

describe("a comparison", () => {
  test("has McNemar's exact p with one run each", () => {
    // 10 examples only the first gets right, 2 only the second: 2 * P(X <= 2 of 12) = 0.03857.
    const first = side("A", { clean: outcomes(`${"1".repeat(10)}00${"1".repeat(20)}`) });
    const second = side("B", { clean: outcomes(`${"0".repeat(10)}11${"1".repeat(20)}`) });
    const [found] = compareModels(first, second);
    expect(found).toMatchObject({ measure: "clean", examples: 32, seeds: 1, better: "first" });
    expect(found!.difference).toBeCloseTo(8 / 32, 10);
    expect(found!.p.mcNemar).toBeCloseTo(0.03857, 5);
    expect(found!.verdict).toBe(
      `clean: A is better than B: 93.8 % against 68.8 % on 32 examples, 25.0 points (95 %: ${(100 * found!.low).toFixed(1)} to ${(100 * found!.high).toFixed(1)}; p 0.039)`,
    );
    expect(compareModels(second, first)[0]).toMatchObject({ better: "second" });
  });

  test("is corrected for the number of measures", () => {
    const first = outcomes(`${"1".repeat(10)}00`);
    const second = outcomes(`${"0".repeat(10)}11`);
    const found = compareModels(side("A", { clean: first, pwws: first }), side("B", { clean: second, pwws: second }));
    expect(found.map(({ p }) => p.corrected)).toEqual([expect.closeTo(0.07715, 4), expect.closeTo(0.07715, 4)]);
    expect(found.map(({ better }) => better)).toEqual([null, null]);
    expect(found[0]!.verdict).toContain("A and B cannot be told apart");
    expect(found[0]!.verdict).toContain("with 12 examples, two models that differ by less than");
  });

  test("is over seeds and examples with several runs, with ROSE's t-test beside", () => {
    const weak = ["1100110011001100", "1010101010101010"].map((bits) => ({ clean: outcomes(bits) }));
    const strong = ["1111111111111110", "1111111111111100"].map((bits) => ({ clean: outcomes(bits) }));
    const [found] = compareModels(side("weak", ...weak), side("strong", ...strong));
    expect(found).toMatchObject({ seeds: 2, better: "second", p: { mcNemar: null } });
    expect(found!.p.tTest).toBeGreaterThan(0);
    expect(found!.p.tTest).toBeLessThan(0.1);
  });

  test("pairs runs by their seeds, not by their places", () => {
    const [low, middle, high, top] = ["1100000000", "1111000000", "1111110000", "1111111100"].map((bits) => ({
      clean: outcomes(bits),
    }));
    const first = { ...side("A", low!, middle!, high!), seeds: [0, 1, 2] };
    const second = { ...side("B", low!, middle!, top!), seeds: [1, 2, 3] };
    const paired = alignSeeds(first, second);
    expect(paired.leftOut).toEqual([0, 3]);
    expect(compareModels(paired.first, paired.second)[0]).toMatchObject({
      seeds: 2,
      first: 0.5,
      second: expect.closeTo(0.3, 10),
    });
    expect(() => alignSeeds(first, { ...second, seeds: [7, 8, 9] })).toThrow(
      "A has seeds 0, 1, 2, B has 7, 8, 9: none in common",
    );
    // A run each is a run each, whatever their seeds.
    const [one, other] = [
      { ...side("A", low!), seeds: [0] },
      { ...side("B", top!), seeds: [5] },
    ];
    expect(alignSeeds(one, other)).toEqual({ first: one, second: other, leftOut: [] });
  });

  test("takes the examples that both have, and refuses where there are none", () => {
    const first = side("A", { clean: outcomes("11111") });
    expect(compareModels(first, side("B", { clean: outcomes("00000", 3) }))[0]).toMatchObject({
      examples: 2,
      first: 1,
      second: 0,
    });
    expect(() => compareModels(first, side("B", { clean: outcomes("1", 9) }))).toThrow(
      "A and B have no example in common",
    );
    expect(() => compareModels(first, side("B", { pwws: outcomes("1") }))).toThrow(
      "nothing was measured on both: A has clean, B has pwws",
    );
    expect(() =>
      compareModels(
        first,
        side("B", ...first.outcomesPerSeed.map(() => ({ clean: outcomes("1") })), { clean: outcomes("1") }),
      ),
    ).toThrow("A has 1 run(s), B has 2");
  });
});
