import { describe, expect, test } from "vitest";
import { listen } from "../../src/base/events.js";
import { formatPercent } from "../../src/base/format.js";
import {
  type CompareOptions,
  compareModels,
  type MetricComparison,
  metricComparisonSchema,
} from "../../src/evaluation/compare.js";
import type { ExampleOutcomes, ModelOutcomes } from "../../src/evaluation/outcomes.js";
import { logGamma } from "../../src/evaluation/special-functions.js";
import { holmCorrection } from "../../src/evaluation/statistics.js";
import { expectClose, float64, matchClose } from "../rounding.js";

/** Returns outcomes of examples 0, 1, … from a string such as "1101". */
const outcomes = (bits: string, from = 0): ExampleOutcomes =>
  new Map([...bits].map((bit, i) => [`e${from + i}`, bit === "1"]));
const model = (name: string, ...seeds: Record<string, ExampleOutcomes>[]): ModelOutcomes => ({
  name,
  outcomesPerSeed: seeds.map((seed) => new Map(Object.entries(seed))),
});
const compareWithWarnings = (
  models: readonly ModelOutcomes[],
  options: CompareOptions = {},
): { comparisons: MetricComparison[]; warnings: string[] } => {
  const warnings: string[] = [];
  const comparisons = compareModels(models, {
    ...options,
    ...listen({ warning: ({ message }) => warnings.push(message) }),
  });
  return { comparisons, warnings };
};

describe("compareModels", () => {
  test("uses McNemar's exact test for one run per model", () => {
    // Only the first is correct on 10 examples, only the second on 2: 2 * P(X <= 2 of 12).
    const first = model("A", { clean: outcomes(`${"1".repeat(10)}00${"1".repeat(20)}`) });
    const second = model("B", { clean: outcomes(`${"0".repeat(10)}11${"1".repeat(20)}`) });
    const [found] = compareModels([first, second]);
    expect(metricComparisonSchema.parse(found)).toEqual(found);
    expect(found).toMatchObject({ metric: "clean", firstName: "A", secondName: "B", examples: 32, seeds: 1 });
    expect(found!.better).toBe("first");
    expect(found!.difference).toBe(8 / 32);
    expectClose(found!.p.mcNemar!, (2 * (1 + 12 + 66)) / 2 ** 12, { ...float64, terms: 4 * logGamma(13) });
    const interval = `95% CI ${(100 * found!.low).toFixed(1)} to ${(100 * found!.high).toFixed(1)}`;
    expect(found!.verdict).toBe(
      `accuracy before the attack: A is better than B: ${formatPercent(0.9375)} vs. ${formatPercent(0.6875)} ` +
        `on 32 examples, 25.0 points (${interval}; Holm-corrected p = 0.039).`,
    );
    // The numbers of the winner come first, whatever the order of the models.
    const [swapped] = compareModels([second, first]);
    expect(swapped).toMatchObject({ better: "second" });
    expect(swapped!.verdict).toMatch(/A is better than B: 93\.8% vs\. 68\.8% on 32 examples, 25\.0 points \(95% CI \d/);
  });

  test("the accuracy on texts of one label is its recall, and is compared before the attack, too", () => {
    const seed = { accuracy: outcomes("11"), clean: outcomes("10", 2), pwws: outcomes("00", 2) };
    const spam = (name: string): ModelOutcomes => ({ ...model(name, seed), attackedLabel: "spam" });
    const titles = (pair: readonly ModelOutcomes[]): string[] =>
      compareModels(pair).map(({ verdict }) => verdict.split(":")[0]!);
    const recalls = ["recall of spam before the attack", "recall of spam under pwws"];
    expect(titles([spam("A"), spam("B")])).toEqual(["accuracy", ...recalls]);
    // The examples that both have are spam.
    expect(titles([model("A", seed), spam("B")])).toEqual(["accuracy", ...recalls]);
    expect(titles([model("A", seed), model("B", seed)])).toEqual(["accuracy", "accuracy under pwws"]);
  });

  test("corrects for the number of metrics", () => {
    const first = outcomes(`${"1".repeat(10)}00`);
    const second = outcomes(`${"0".repeat(10)}11`);
    const found = compareModels([
      model("A", { clean: first, pwws: first }),
      model("B", { clean: second, pwws: second }),
    ]);
    const corrected = (2 * 2 * (1 + 12 + 66)) / 2 ** 12;
    expectClose(
      found.map(({ p }) => p.corrected),
      [corrected, corrected],
      { ...float64, terms: 4 * logGamma(13) },
    );
    expect(found.map(({ better }) => better)).toEqual([null, null]);
    expect(found[0]!.verdict).toContain("the difference between A and B is not statistically significant");
    expect(found[0]!.verdict).toMatch(/With 12 examples, differences below [\d.]+ points cannot be detected reliably/);
  });

  test("compares every other model with the first, and corrects over all pairs", () => {
    const better = model("A", { clean: outcomes(`${"1".repeat(10)}00`), pwws: outcomes("111111111111") });
    const worse = model("B", { clean: outcomes(`${"0".repeat(10)}11`) });
    const third = model("C", { clean: outcomes("101010101010"), pwws: outcomes("000000111111") });
    const found = compareModels([better, worse, third]);
    expect(found.map(({ firstName, secondName, metric }) => [firstName, secondName, metric])).toEqual([
      ["A", "B", "clean"],
      ["A", "C", "clean"],
      ["A", "C", "pwws"],
    ]);
    // Except for Holm's correction, a pair has the same numbers as in a comparison of two models.
    const [alone] = compareModels([better, worse]);
    expect({ ...found[0]!.p, corrected: null }).toEqual({ ...alone!.p, corrected: null });
    expect([found[0]!.low, found[0]!.high]).toEqual([alone!.low, alone!.high]);
    expect(found.map(({ p }) => p.corrected)).toEqual(holmCorrection(found.map(({ p }) => p.mcNemar!)));
    expect(() => compareModels([better])).toThrow("expected two or more models, received 1");
  });

  test("bootstraps over seeds and examples for several runs, and adds the paired t-test", () => {
    const weak = ["1100110011001100", "1010101010101010"].map((bits) => ({ clean: outcomes(bits) }));
    const strong = ["1111111111111110", "1111111111111100"].map((bits) => ({ clean: outcomes(bits) }));
    const [found] = compareModels([model("weak", ...weak), model("strong", ...strong)]);
    expect(found).toMatchObject({ seeds: 2, better: "second", p: { mcNemar: null } });
    expect(found!.p.tTest).toBeGreaterThan(0);
    expect(found!.p.tTest).toBeLessThan(0.1);
  });

  test("renamed metrics keep their random stream", () => {
    const [a, b] = [outcomes("110111010110"), outcomes("011010110011")];
    const interval = (metric: string) => {
      const [{ low, high, p }] = compareModels([model("A", { [metric]: a }), model("B", { [metric]: b })]) as [
        MetricComparison,
      ];
      return [low, high, p.bootstrap];
    };
    expect(interval("accuracy")).toEqual(interval("clean"));
    expect(interval("pwws")).not.toEqual(interval("clean"));
  });

  test("pairs runs by seed, and warns of seeds that only one model has", () => {
    const [low, middle, high, top] = ["1100000000", "1111000000", "1111110000", "1111111100"].map((bits) => ({
      clean: outcomes(bits),
    }));
    const first = { ...model("A", low!, middle!, high!), seeds: [0, 1, 2] };
    const second = { ...model("B", low!, middle!, top!), seeds: [1, 2, 3] };
    const { comparisons, warnings } = compareWithWarnings([first, second]);
    expect(warnings).toEqual(["Skipped seeds 0, 3: only one of A and B has them."]);
    expect(comparisons[0]).toMatchObject({ seeds: 2, first: 0.5, second: matchClose(0.3, float64) });
    expect(() => compareModels([first, { ...second, seeds: [7, 8, 9] }])).toThrow(
      "A has seeds 0, 1, 2, but B has 7, 8, 9. Train both with the same seeds.",
    );
    // Single runs are compared whatever their seeds are.
    const single = compareWithWarnings([
      { ...model("A", low!), seeds: [0] },
      { ...model("B", top!), seeds: [5] },
    ]);
    expect(single.warnings).toEqual([]);
    expect(single.comparisons[0]).toMatchObject({ seeds: 1, first: 0.2, second: 0.8 });
  });

  test("uses the examples that both have, and rejects models without common examples or metrics", () => {
    const first = model("A", { clean: outcomes("11111") });
    expect(compareModels([first, model("B", { clean: outcomes("00000", 3) })])[0]).toMatchObject({
      examples: 2,
      first: 1,
      second: 0,
    });
    expect(() => compareModels([first, model("B", { clean: outcomes("1", 9) })])).toThrow(
      "clean: A and B have no examples in common",
    );
    expect(() => compareModels([first, model("B", { pwws: outcomes("1") })])).toThrow(
      "A and B have no metric in common (clean; pwws)",
    );
    expect(() => compareModels([first, model("B", { clean: outcomes("1") }, { clean: outcomes("1") })])).toThrow(
      "A has 1 run(s), but B has 2",
    );
  });

  test("compares worst cases over the common attacks only, and names them", () => {
    const [robust, fooled] = [outcomes("1".repeat(20)), outcomes("0".repeat(20))];
    const attacked = (name: string, attacks: Record<string, ExampleOutcomes>) =>
      model(name, { ...attacks, "worst-case": fooled });
    const { comparisons, warnings } = compareWithWarnings([
      attacked("A", { genetic: robust, pwws: robust, exhaustive: fooled }),
      attacked("B", { genetic: robust, pwws: robust }),
    ]);
    expect(comparisons.find(({ metric }) => metric === "worst-case")).toMatchObject({
      first: 1,
      second: 1,
      better: null,
    });
    expect(warnings[0]).toMatch(/different attacks .*covers only genetic, pwws/);
    const single = compareWithWarnings([
      attacked("A", { genetic: robust, pwws: fooled }),
      attacked("B", { pwws: robust }),
    ]);
    expect(single.comparisons.map(({ metric }) => metric)).toEqual(["pwws"]);
    expect(single.warnings[0]).toContain("their worst case is not compared");
  });

  test("a degenerate model has a warning instead of a mark", () => {
    const [strong, weak] = [outcomes("1".repeat(40)), outcomes("0".repeat(40))];
    const degeneracies = ["it predicts spam for 40 of 40 texts"];
    const collapsed = { ...model("A", { pwws: strong }), degeneracies };
    for (const models of [
      [collapsed, model("B", { pwws: weak })],
      [model("B", { pwws: weak }), collapsed],
    ]) {
      const [found] = compareModels(models);
      expect(found).toMatchObject({
        better: null,
        warning: expect.stringContaining("A is degenerate: it predicts spam"),
      });
      // All 40 examples differ. The test of one pair needs no correction.
      expectClose(found!.p.corrected, 2 ** -39, { ...float64, terms: 4 * logGamma(41) });
      expect(found!.verdict).toContain("Draw no conclusion from the difference.");
      expect(found!.verdict).not.toContain("better");
    }
  });

  test("skips a metric without common examples, with a warning", () => {
    const first = model("A", { clean: outcomes("111"), pwws: outcomes("110") });
    const second = model("B", { clean: outcomes("111", 9), pwws: outcomes("100") });
    const { comparisons, warnings } = compareWithWarnings([first, second]);
    expect(comparisons.map(({ metric }) => metric)).toEqual(["pwws"]);
    expect(warnings).toEqual(["Skipped clean: A and B have no examples in common."]);
  });
});
