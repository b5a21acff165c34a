import { describe, expect, test } from "vitest";
import { SearchPool } from "../../src/attacks/pool.js";
import type { AbleVictim } from "../../src/attacks/victim.js";
import { confirmAnswers } from "../../src/models/inference/confirm-answers.js";
import type { Identified } from "../../src/models/inference/predictor.js";
import { ScoreCache } from "../../src/models/inference/score-cache.js";
import { expectClose } from "../rounding.js";
import { attackExamples, collect, createExample, createTableAttack, hashed, scriptedVictim } from "./scripted.js";

/** A victim in low precision, and the same in float32. */
function createPair(low: (text: string) => readonly number[], exact: (text: string) => readonly number[]) {
  const [fast, confirming] = [
    { ...scriptedVictim(2, low), hash: "low" },
    { ...scriptedVictim(2, exact), hash: "exact" },
  ];
  return { fast, confirming, victim: confirmAnswers(fast, confirming, 0.3) };
}

const replacements = [
  ["a", "b"],
  ["c", "d"],
  ["e", "f"],
];

describe("a victim in low precision", () => {
  const forms = [{ adaptive: false }, { adaptive: true }];
  test.each(forms)("does not decide: float32 does, and the search continues (%o)", async (form) => {
    // In low precision, one substitution is enough. In float32, two are needed.
    const countChanges = (text: string): number => text.split(" ").filter((word) => "bdf".includes(word)).length;
    const answer = (needed: number) => (text: string) => {
      const gold = Math.max(0.1, 0.9 - (0.45 * countChanges(text)) / needed);
      return [gold, 1 - gold];
    };
    const { victim, fast, confirming } = createPair(answer(1), answer(2));
    const example = createExample("1", replacements);
    const run = (target: AbleVictim) => attackExamples(target, { name: "pwws", options: form }, [example]);
    const [result] = await run(victim);
    expect(result).toMatchObject({ outcome: "success" });
    expect(result!.edits).toHaveLength(2);
    expectClose(result!.after[0]!, 0.45, { terms: 1, decimals: 6 });
    expect([result]).toEqual(await run(scriptedVictim(2, answer(2))));
    // The original text is only scored in float32, and unchanged decisions only in low precision.
    expect(fast.calls.flat()).not.toContain("a c e");
    expect(confirming.calls.flat()).toContain("a c e");
    expect(confirming.calls.flat()).not.toContain("_ c e");
  });

  test.each(forms)("does not overlook what it nearly misclassifies (%o)", async (form) => {
    const answer = (changed: number) => (text: string) => (text.includes("b") ? [changed, 1 - changed] : [0.9, 0.1]);
    const example = createExample("1", [["a", "b"], ["c"]]);
    const { victim } = createPair(answer(0.55), answer(0.49));
    const [result] = await attackExamples(victim, { name: "pwws", options: form }, [example]);
    expect(result!.outcome).toBe("success");
  });

  test("proves nothing: an exhaustive search is in float32", async () => {
    const answer = (gold: number) => (text: string) => (text.includes("b") ? [gold, 1 - gold] : [0.9, 0.1]);
    const { victim, fast } = createPair(answer(0.6), answer(0.49));
    const example = createExample("1", [["a", "b"], ["c"]]);
    expect(await attackExamples(victim, "exhaustive", [example])).toMatchObject([{ outcome: "success", exact: true }]);
    expect(fast.calls).toEqual([]);
  });

  test("scores a text once, however many searches need it", async () => {
    const answer = (text: string): number[] => (text.includes("b") ? [0.52, 0.48] : [0.9, 0.1]);
    const { victim, fast, confirming } = createPair(answer, answer);
    const examples = [0, 1].map((i) => createExample(`e${i}`, [["a", "b"], ["c"]]));
    for (const adaptive of [false, true]) await attackExamples(victim, `pwws:adaptive=${adaptive}`, examples);
    for (const { calls } of [fast, confirming]) for (const call of calls) expect(new Set(call).size).toBe(call.length);
  });

  test("a near tie of the recorded text is marked, although the budget ended the search before", async () => {
    const answer = (gold: number) => (text: string) => (text.includes("b") ? [gold, 1 - gold] : [0.9, 0.1]);
    const { victim } = createPair(answer(0.6), answer(0.49999));
    const example = createExample("1", [["a", "b"], ["c"]]);
    const results = await attackExamples(victim, "pwws:adaptive=true", [example], { budget: 3 });
    expect(results).toMatchObject([{ exhausted: true, outcome: "success", nearTie: true }]);
  });

  test("records float32 scores, whatever the outcome is", async () => {
    const exact = hashed(2);
    const low = (text: string): number[] => exact(text).map((p, i) => p + (i === 0 ? 0.01 : -0.01));
    const examples = Array.from({ length: 40 }, (_, i) =>
      createExample(
        `e${i}`,
        [
          ["w", `x${i}`],
          [`y${i}`, "z"],
        ],
        i % 2,
      ),
    );
    for (const name of ["pwws", "greedy", "genetic"]) {
      const { victim } = createPair(low, exact);
      const results = await attackExamples(victim, name, examples, { seed: 3 });
      expect(new Set(results.map(({ outcome }) => outcome)).size).toBe(3);
      for (const { texts, before, after, finalTexts, outcome, label } of results) {
        const [first, last] = [exact(texts[0]!), exact(finalTexts[0]!)];
        expectClose([before[0]!, after[0]!], [first[0]!, last[0]!], { terms: 1, decimals: 6 });
        expect(outcome === "failed").toBe(last[label]! > 0.5);
      }
    }
  });

  test("has its own cache, and cached scores change nothing", async () => {
    const exact = hashed(2);
    const low = (text: string): number[] => exact(text).map((p, i) => p + (i === 0 ? 0.02 : -0.02));
    const examples = Array.from({ length: 20 }, (_, i) =>
      createExample(
        `e${i}`,
        replacements.map(([a, b]) => [`${a}${i}`, b!]),
      ),
    );
    const attack = await createTableAttack("genetic", examples);
    const caches = new Map(["low", "exact"].map((name) => [name, new ScoreCache(2)]));
    const openCache = ({ hash }: Partial<Identified>): ScoreCache => caches.get(hash!)!;
    const run = async () => {
      const { victim, fast, confirming } = createPair(low, exact);
      const results = await collect(new SearchPool(victim, { openCache }).run(examples, attack, { seed: 5 }));
      return { results, calls: fast.calls.length + confirming.calls.length };
    };
    const first = await run();
    expect(first.calls).toBeGreaterThan(0);
    expect(await run()).toEqual({ results: first.results, calls: 0 });
  });
});
