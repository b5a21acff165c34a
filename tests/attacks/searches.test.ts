import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { countCombinations } from "../../src/attacks/exhaustive.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { SearchProblem } from "../../src/attacks/search.js";
import { Rng } from "../../src/tensor/random.js";
import { attack, collect, drive, problemOf, scriptedVictim, targetOfChoices } from "./scripted.js";

const choices = [["the"], ["good", "fine", "nice"], ["old", "aged"], ["film", "movie"]];

/** Draws from lists written down beforehand, and fails when more is drawn than the test foresaw. */
function dictated(integers: number[], nexts: number[]): Rng {
  const take = (list: number[]) => {
    const value = list.shift();
    if (value === undefined) throw new Error("more draws than dictated");
    return value;
  };
  return { integer: () => take(integers), next: () => take(nexts) } as unknown as Rng;
}

describe("pwws", () => {
  // Original 0.9. Saliency: good 0.9-0.5 = 0.4, old 0.9-0.8 = 0.1, film 0.9-0.7 = 0.2.
  // Drops: fine 0.05, nice 0.10 -> nice; aged 0.15; movie 0.12.
  // Scores are drop * exp(saliency) / Z: nice 0.10*1.4918 = 0.1492, aged 0.15*1.1052 = 0.1658, movie 0.12*1.2214 = 0.1466.
  const table: Record<string, number> = {
    "the _ old film": 0.5,
    "the good _ film": 0.8,
    "the good old _": 0.7,
    "the fine old film": 0.85,
    "the nice old film": 0.8,
    "the good aged film": 0.75,
    "the good old movie": 0.78,
    "the nice aged film": 0.6,
    "the nice aged movie": 0.4,
  };
  const gold = (text: string) => table[text]!;

  test("asks the saliencies, the substitutes, then the prefixes in the order of drop times saliency", async () => {
    const problem = problemOf(choices, [0.9, 0.1]);
    const { asked, final } = drive((await attack("pwws")).search(problem, new Rng(0)), problem, gold);
    expect(asked).toEqual([
      [
        "the _ old film",
        "the good _ film",
        "the good old _",
        "the fine old film",
        "the nice old film",
        "the good aged film",
        "the good old movie",
      ],
      ["the good aged film", "the nice aged film"],
      ["the nice aged movie"],
    ]);
    expect(final).toBe("the nice aged movie");
  });

  test("stops at the largest number of changes", async () => {
    const problem = problemOf(choices, [0.9, 0.1], 2);
    const { asked, final } = drive((await attack("pwws")).search(problem, new Rng(0)), problem, gold);
    expect(asked.flat()).not.toContain("the nice aged movie");
    expect(final).toBe("the nice aged film");
  });

  test("adaptive, chooses each substitute on the text as it stands then, and leaves words where none hurts", async () => {
    const problem = problemOf(choices, [0.9, 0.1]);
    const then: Record<string, number> = { ...table, "the fine aged film": 0.45, "the nice aged film": 0.6 };
    const { asked, final } = drive(
      (await attack("pwws", { adaptive: true })).search(problem, new Rng(0)),
      problem,
      (text) => then[text]!,
    );
    expect(asked.slice(1)).toEqual([["the good aged film"], ["the fine aged film", "the nice aged film"]]);
    expect(final).toBe("the fine aged film");
    const stubborn: Record<string, number> = {
      ...then,
      "the fine aged film": 0.76,
      "the nice aged film": 0.9,
      "the good aged movie": 0.3,
    };
    const other = drive(
      (await attack("pwws", { adaptive: true })).search(problem, new Rng(0)),
      problem,
      (text) => stubborn[text]!,
    );
    expect(other.final).toBe("the good aged movie");
  });

  test("counts a speculative prefix only if the sequential algorithm had asked it", async () => {
    // "aged" alone fools: the second prefix of the group goes to the victim, but is no query. 1 + 7 + 1.
    const victim = scriptedVictim(2, (text) => {
      const p = text === "the good aged film" ? 0.3 : text === "the good old film" ? 0.9 : (table[text] ?? 0.6);
      return [p, 1 - p];
    });
    const pool = new SearchPool(victim);
    const [result] = await collect(pool.run([targetOfChoices("a", choices)], await attack("pwws"), { seed: 1 }));
    expect(result).toMatchObject({ outcome: "success", queries: 9, edits: [{ position: 2, from: "old", to: "aged" }] });
    // The first prefix was scored as a substitute before: only the second is new.
    expect(pool.counters).toMatchObject({ forwarded: 9, asked: 11 });
  });
});

describe("genetic", () => {
  const two = [
    ["a", "a1", "a2"],
    ["b", "b1"],
  ];
  const table: Record<string, number> = {
    "a b": 0.9,
    "a1 b": 0.8,
    "a2 b": 0.7,
    "a b1": 0.85,
    "a2 b1": 0.4,
    "a1 b1": 0.6,
  };
  const gold = (text: string) => table[text]!;
  const problem: SearchProblem = problemOf(two, [0.9, 0.1]);

  test("mutates one random word to the best of all its choices, crosses parents, keeps the elite", async () => {
    const search = (await attack("genetic", { population: 2, iterations: 1 })).search;
    // Positions 0 and 1 mutate. Weights 0.3 and 0.15: 0.1 draws the first, 0.9 the second. 0.7 takes the father's word, 0.2 the mother's.
    const { asked, final } = drive(search(problem, dictated([0, 1, 1], [0.1, 0.9, 0.7, 0.2])), problem, gold);
    expect(asked).toEqual([
      ["a b", "a1 b", "a2 b", "a b", "a b1"],
      ["a b", "a b1"],
    ]);
    expect(final).toBe("a2 b");
  });

  test("checks its last generation", async () => {
    const search = (await attack("genetic", { population: 2, iterations: 1 })).search;
    const { asked, final } = drive(search(problem, dictated([0, 1, 1], [0.1, 0.9, 0.2, 0.2])), problem, gold);
    expect(asked[1]).toEqual(["a2 b", "a2 b1"]);
    expect(final).toBe("a2 b1");
  });

  test("draws parents by the sigmoid of the margin where there are three classes", async () => {
    const search = (await attack("genetic", { population: 2, iterations: 1 })).search;
    const three = { ...problem, numLabels: 3, originalScore: { probabilities: [0.8, 0.1, 0.1] } };
    const generator = search(three, dictated([0, 1, 1], [0.66, 0.67, 0.2, 0.2]));
    generator.next();
    // Margins: "a2 b" log(0.6/0.3) -> 1/3 + 1e-4; "a b1" log(0.75/0.15) -> 1/6 + 1e-4. The first has the share 0.66647.
    const scores = [
      [0.8, 0.1, 0.1],
      [0.7, 0.2, 0.1],
      [0.6, 0.3, 0.1],
      [0.8, 0.1, 0.1],
      [0.75, 0.15, 0.1],
    ].map((probabilities) => ({ probabilities }));
    const children = generator.next(scores).value as { replacementIndices: Int16Array }[];
    // Mother "a2 b" (0.66), father "a b1" (0.67); every differing word from the mother, then word 1 mutates.
    expect(children.map(({ replacementIndices }) => [...replacementIndices])).toEqual([
      [2, 0],
      [2, 1],
    ]);
  });

  test("never changes more words than allowed", async () => {
    const wide = Array.from({ length: 6 }, (_, i) => [`w${i}`, `x${i}`, `y${i}`]);
    const limited = problemOf(wide, [0.9, 0.1], 2);
    const search = (await attack("genetic", { population: 8, iterations: 5 })).search;
    const { asked } = drive(
      search(limited, new Rng(3)),
      limited,
      (text) => 0.9 - 0.001 * (text.match(/[xy]/g)?.length ?? 0),
    );
    const most = Math.max(...asked.flat().map((text) => text.match(/[xy]/g)?.length ?? 0));
    expect(most).toBe(2);
  });

  test("agrees with exhaustive on a two-word space of added effects", async () => {
    const effect = fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 });
    const [evolve, all] = [
      (await attack("genetic", { population: 10, iterations: 10 })).search,
      (await attack("exhaustive")).search,
    ];
    const space = [
      ["a", "a1", "a2"],
      ["b", "b1", "b2"],
    ];
    fc.assert(
      fc.property(effect, effect, fc.integer(), (first, second, seed) => {
        const bias = 0.2 - first[0]! - second[0]!;
        const gold = (text: string) => {
          const [a, b] = text.split(" ") as [string, string];
          return 1 / (1 + Math.exp(-(bias + first[space[0]!.indexOf(a)]! + second[space[1]!.indexOf(b)]!)));
        };
        const both = problemOf(space, [gold("a b"), 1 - gold("a b")]);
        const fooled = [evolve, all].map((search) => gold(drive(search(both, new Rng(seed)), both, gold).final) < 0.5);
        expect(fooled[0]).toBe(fooled[1]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("greedy", () => {
  test("takes the best choice of each word given those before it, and stops when the label flips", async () => {
    const table: Record<string, number> = {
      "the fine old film": 0.8,
      "the nice old film": 0.95,
      "the fine aged film": 0.82,
      "the fine old movie": 0.4,
    };
    const problem = problemOf(choices, [0.9, 0.1]);
    const { asked, final } = drive(
      (await attack("greedy")).search(problem, new Rng(0)),
      problem,
      (text) => table[text]!,
    );
    expect(asked).toEqual([["the fine old film", "the nice old film"], ["the fine aged film"], ["the fine old movie"]]);
    expect(final).toBe("the fine old movie");
  });
});

describe("random", () => {
  test("tries as many texts as it is told, all inside the space", async () => {
    const problem = problemOf(choices, [0.9, 0.1], 2);
    const { asked } = drive((await attack("random", { samples: 30 })).search(problem, new Rng(5)), problem, () => 0.9);
    expect(asked.flat()).toHaveLength(30);
    for (const text of asked.flat()) {
      const changed = text.split(" ").filter((word, i) => word !== choices[i]![0]);
      expect(changed.length).toBeLessThanOrEqual(2);
    }
  });
});

describe("exhaustive", () => {
  test("tries every text once, fewest changes first", async () => {
    const problem = problemOf(choices, [0.9, 0.1]);
    const { asked } = drive((await attack("exhaustive")).search(problem, new Rng(0)), problem, () => 0.9);
    const texts = asked.flat();
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts).toHaveLength(3 * 2 * 2 - 1);
    expect(texts).toHaveLength(countCombinations(problem));
    expect(texts.slice(0, 4)).toEqual([
      "the fine old film",
      "the nice old film",
      "the good aged film",
      "the good old movie",
    ]);
    expect(texts.at(-1)).toBe("the nice aged movie");
  });

  test("counts the space under a limit of changes, and says where it is only a bound", async () => {
    const problem = problemOf(choices, [0.9, 0.1], 1);
    expect(countCombinations(problem)).toBe(4);
    const tight = await attack("exhaustive", { budget: 3 });
    const { asked } = drive(tight.search(problem, new Rng(0)), problem, () => 0.9);
    expect(asked.flat()).toHaveLength(3);
    expect(tight.exact!(problem)).toBe(false);
    expect((await attack("exhaustive", { budget: 4 })).exact!(problem)).toBe(true);
  });
});
