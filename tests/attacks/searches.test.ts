import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { maxModificationRate, maxWordsChanged } from "../../src/attacks/constraints/words.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { Rng } from "../../src/base/rng.js";
import { collect, createExample, createTableAttack, drive, type Replacements, scriptedVictim } from "./scripted.js";

const replacements = [["the"], ["good", "fine", "nice"], ["old", "aged"], ["film", "movie"]];

/** Runs an attack on the words of a table. Without a text in the script, the original has 0.9. */
async function run(
  spec: Parameters<typeof createTableAttack>[0],
  words: Replacements,
  gold: (text: string) => number | readonly number[],
  { rng = new Rng(0), maxChanged }: { rng?: Rng; maxChanged?: number } = {},
) {
  const example = createExample("0", words);
  const limit = maxChanged === undefined ? [] : [maxModificationRate(maxChanged / words.length, 0)];
  const attack = await createTableAttack(spec, [example], limit);
  return drive(attack, example, (text) => (text === example.texts[0] ? (gold(text) ?? 0.9) : gold(text)), rng);
}

/** Returns fixed values instead of random ones, and fails if a search draws more of them. */
function fixedRng(integers: number[], nexts: number[]): Rng {
  const take = (list: number[]) => {
    const value = list.shift();
    if (value === undefined) throw new Error("more draws than expected");
    return value;
  };
  return {
    integer: () => take(integers),
    next: () => take(nexts),
    fork: () => new Rng(0),
  } as unknown as Rng;
}

describe("pwws", () => {
  // Original 0.9. Saliency: good 0.9-0.5 = 0.4, old 0.9-0.8 = 0.1, film 0.9-0.7 = 0.2.
  // Drops: fine 0.05, nice 0.10 -> nice; aged 0.15; movie 0.12.
  // Scores are drop * exp(saliency) / Z: nice 0.10*1.4918 = 0.1492, aged 0.15*1.1052 = 0.1658,
  // movie 0.12*1.2214 = 0.1466.
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

  test("queries masked words, substitutes, then prefixes in the order of drop times saliency", async () => {
    const { queries, final } = await run("pwws", replacements, gold);
    expect(queries).toEqual([
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

  test("saliencyWord is written over a word instead of the unknown token, as in RIFT's released code", async () => {
    const { queries } = await run("pwws:saliencyWord=NULL", replacements, (text) => table[text] ?? 0.9);
    expect(queries[0]!.slice(0, 4)).toEqual([
      "the NULL old film",
      "the good NULL film",
      "the good old NULL",
      "the fine old film",
    ]);
  });

  test("never changes more words than allowed", async () => {
    const { queries, final } = await run("pwws", replacements, gold, { maxChanged: 2 });
    expect(queries.flat()).not.toContain("the nice aged movie");
    expect(final).toBe("the nice aged film");
  });

  test("adaptive: chooses each substitute on the current text, and keeps words that no substitute beats", async () => {
    const changed: Record<string, number> = { ...table, "the fine aged film": 0.45, "the nice aged film": 0.6 };
    const { queries, final } = await run("pwws:adaptive=true", replacements, (text) => changed[text]!);
    expect(queries.slice(1)).toEqual([["the good aged film"], ["the fine aged film", "the nice aged film"]]);
    expect(final).toBe("the fine aged film");
    const stubborn: Record<string, number> = {
      ...changed,
      "the fine aged film": 0.76,
      "the nice aged film": 0.9,
      "the good aged movie": 0.3,
    };
    const other = await run("pwws:adaptive=true", replacements, (text) => stubborn[text]!);
    expect(other.final).toBe("the good aged movie");
  });

  test("counts a prefix as a query only if the sequential algorithm would reach it", async () => {
    // "aged" alone fools the victim. It also scores the second prefix, which is not a query: 1 + 7
    // + 1.
    const victim = scriptedVictim(2, (text) => {
      const p = text === "the good aged film" ? 0.3 : text === "the good old film" ? 0.9 : (table[text] ?? 0.6);
      return [p, 1 - p];
    });
    const pool = new SearchPool(victim);
    const example = createExample("a", replacements);
    const [result] = await collect(pool.run([example], await createTableAttack("pwws", [example]), { seed: 1 }));
    expect(result).toMatchObject({ outcome: "success", queries: 9, edits: [{ position: 2, from: "old", to: "aged" }] });
    // The first prefix was already scored as a substitute, so only the second is new.
    expect(pool.counters).toMatchObject({ evaluations: 9, queries: 11 });
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
  test("mutates one random word to its best replacement, crosses parents, and keeps the best member", async () => {
    // Positions 0 and 1 mutate. With weights 0.3 and 0.15, 0.1 selects the first parent and 0.9 the
    // second. 0.7 takes the father's word, 0.2 the mother's.
    const rng = fixedRng([0, 1, 1], [0.1, 0.9, 0.7, 0.2]);
    const { queries, final } = await run("genetic:population=2,iterations=1", two, gold, { rng });
    expect(queries).toEqual([
      ["a b", "a1 b", "a2 b", "a b", "a b1"],
      ["a b", "a b1"],
    ]);
    expect(final).toBe("a2 b");
  });

  test("checks the last generation", async () => {
    const rng = fixedRng([0, 1, 1], [0.1, 0.9, 0.2, 0.2]);
    const { queries, final } = await run("genetic:population=2,iterations=1", two, gold, { rng });
    expect(queries[1]).toEqual(["a2 b", "a2 b1"]);
    expect(final).toBe("a2 b1");
  });

  test("selects parents by the sigmoid of the negative margin for three classes", async () => {
    // Margins: "a2 b" log(0.6/0.3) -> 1/3; "a b1" log(0.75/0.15) -> 1/6. So the first is selected
    // with probability 2/3.
    const rows: Record<string, readonly number[]> = {
      "a b": [0.8, 0.1, 0.1],
      "a1 b": [0.7, 0.2, 0.1],
      "a2 b": [0.6, 0.3, 0.1],
      "a b1": [0.75, 0.15, 0.1],
      "a2 b1": [0.6, 0.3, 0.1],
    };
    const rng = fixedRng([0, 1, 1], [0.66, 0.67, 0.2, 0.2]);
    const { queries } = await run("genetic:population=2,iterations=1", two, (text) => rows[text]!, { rng });
    // Mother "a2 b" (0.66), father "a b1" (0.67). Words that differ come from the mother; word 1
    // mutates.
    expect(queries[1]).toEqual(["a2 b", "a2 b1"]);
  });

  test("never changes more words than allowed", async () => {
    const wide = Array.from({ length: 6 }, (_, i) => [`w${i}`, `x${i}`, `y${i}`]);
    const { queries } = await run(
      "genetic:population=8,iterations=5",
      wide,
      (text) => 0.9 - 0.001 * (text.match(/[xy]/g)?.length ?? 0),
      { rng: new Rng(3), maxChanged: 2 },
    );
    const maxChanged = Math.max(...queries.flat().map((text) => text.match(/[xy]/g)?.length ?? 0));
    expect(maxChanged).toBe(2);
  });

  test("agrees with exhaustive search on two words with additive effects", async () => {
    const effect = fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 });
    const space = [
      ["a", "a1", "a2"],
      ["b", "b1", "b2"],
    ];
    const example = createExample("0", space);
    const attacks = [
      await createTableAttack("genetic:population=10,iterations=10", [example]),
      await createTableAttack("exhaustive", [example]),
    ];
    fc.assert(
      fc.property(effect, effect, fc.integer(), (first, second, seed) => {
        const bias = 0.2 - first[0]! - second[0]!;
        const gold = (text: string) => {
          const [a, b] = text.split(" ") as [string, string];
          return 1 / (1 + Math.exp(-(bias + first[space[0]!.indexOf(a)]! + second[space[1]!.indexOf(b)]!)));
        };
        const [evolved, all] = attacks.map((attack) => drive(attack, example, gold, new Rng(seed)).result.outcome);
        expect(evolved).toBe(all);
      }),
      { numRuns: 60 },
    );
  });
});

describe("greedy", () => {
  test("takes the best replacement of each word in order, and stops when the label flips", async () => {
    const table: Record<string, number> = {
      "the fine old film": 0.8,
      "the nice old film": 0.95,
      "the fine aged film": 0.82,
      "the fine old movie": 0.4,
    };
    const { queries, final } = await run("greedy", replacements, (text) => table[text]!);
    expect(queries).toEqual([
      ["the fine old film", "the nice old film"],
      ["the fine aged film"],
      ["the fine old movie"],
    ]);
    expect(final).toBe("the fine old movie");
  });
});

describe("random", () => {
  test("tries the given number of texts, all within the attack space", async () => {
    const { queries } = await run("random:samples=30", replacements, () => 0.9, { rng: new Rng(5), maxChanged: 2 });
    expect(queries.flat()).toHaveLength(30);
    for (const text of queries.flat()) {
      const changed = text.split(" ").filter((word, i) => word !== replacements[i]![0]);
      expect(changed.length).toBeLessThanOrEqual(2);
    }
  });
});

describe("exhaustive", () => {
  test("tries every text once, those with the fewest changes first", async () => {
    const { queries, result } = await run("exhaustive", replacements, () => 0.9);
    const texts = queries.flat();
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts).toHaveLength(3 * 2 * 2 - 1);
    expect(result).toMatchObject({ outcome: "failed", exact: true });
    expect(texts.slice(0, 4)).toEqual([
      "the fine old film",
      "the nice old film",
      "the good aged film",
      "the good old movie",
    ]);
    expect(texts.at(-1)).toBe("the nice aged movie");
  });

  test("tries the texts that the constraints allow, and says whether a failure is a proof", async () => {
    const attack = (maxCandidates: number) =>
      run(`exhaustive:maxCandidates=${maxCandidates}`, replacements, () => 0.9, { maxChanged: 1 });
    expect((await attack(3)).queries.flat()).toHaveLength(3);
    expect((await attack(3)).result.exact).toBe(false);
    expect((await attack(4)).queries.flat()).toHaveLength(4);
    expect((await attack(4)).result.exact).toBe(true);
  });
});

describe("local-search", () => {
  test("takes the best change of any word, restores words, and ends at a local optimum", async () => {
    const table: Record<string, number> = {
      "the fine old film": 0.8,
      "the nice aged film": 0.62,
      "the good aged film": 0.7,
      "the fine aged film": 0.65,
      "the nice old film": 0.58,
    };
    const { queries, final, result } = await run("local-search", replacements, (text) => table[text] ?? 0.9);
    expect(queries).toEqual([
      ["the fine old film", "the nice old film", "the good aged film", "the good old movie"],
      ["the good old film", "the fine old film", "the nice aged film", "the nice old movie"],
    ]);
    expect({ final, outcome: result.outcome }).toEqual({ final: "the nice old film", outcome: "failed" });
  });

  test("tries the opposite text if each word has one substitute", async () => {
    const words = [["a", "b"], ["c", "d"], ["e"]];
    const { queries, final } = await run(
      "local-search",
      words,
      (text) => ({ "a d e": 0.7, "b c e": 0.3 })[text] ?? 0.9,
    );
    expect(final).toBe("b c e");
    expect(queries).toEqual([["b c e", "a d e"]]);
    const late = await run("local-search", words, (text) => ({ "a d e": 0.7 })[text] ?? 0.9);
    expect(late.queries.at(-1)).toEqual(["b c e"]);
  });
});

describe("auto", () => {
  const words = Array.from({ length: 7 }, (_, i) => [`w${i}`, `x${i}`, `y${i}`]);

  test("finds combinations that no single change points to, within the limit of changed words", async () => {
    const rng = new Rng("needles");
    for (let i = 0; i < 10; i++) {
      const positions = rng.shuffle([...words.keys()]).slice(0, 3);
      const chosen = new Map(positions.map((position) => [position, words[position]![1 + rng.integer(2)]!]));
      const needle = words.map(([word], position) => chosen.get(position) ?? word).join(" ");
      // Every step toward the needle looks worse, so ascents lead away from it.
      const gold = (text: string): number => {
        const near = text.split(" ").filter((word, position) => chosen.get(position) === word).length;
        return text === needle ? 0.1 : 0.8 + 0.02 * near;
      };
      const { final, result } = await run("auto", words, gold, { rng: new Rng(i), maxChanged: 3 });
      expect({ final, outcome: result.outcome }).toEqual({ final: needle, outcome: "success" });
    }
  });

  test("ends after its queries if nothing fools the victim", async () => {
    const words = Array.from({ length: 20 }, (_, i) => [`w${i}`, `x${i}`, `y${i}`, `z${i}`]);
    const { result, queries } = await run("auto", words, (text) => 0.8 + text.length / 1e4, { maxChanged: 3 });
    expect(result.outcome).toBe("failed");
    expect(queries.flat().length).toBeGreaterThan(5000);
    expect(queries.flat().length).toBeLessThanOrEqual(10_000);
    for (const text of queries.flat())
      expect(text.split(" ").filter((word, i) => word !== words[i]![0]).length).toBeLessThanOrEqual(3);
  });
});

describe("charmer", () => {
  test("ranks places by a space, and tries every character at the best ones", async () => {
    // A space at the place of "o" matters most; "0" in its place fools the victim.
    const gold = (text: string): number => (text === "n0t" ? 0.2 : text === "n t" ? 0.6 : 0.9);
    const { queries, final } = await run("charmer:places=1,alphabet=0z", [["not"]], gold);
    expect(queries[0]).toEqual([" not", " ot", "n ot", "n t", "no t", "no ", "not "]);
    expect(queries[1]).toEqual(["n0t", "nzt", "nt"]);
    expect(final).toBe("n0t");
  });

  test("with all places, one edit is the best of all texts at distance 1", async () => {
    const { queries } = await run("charmer:places=99,edits=1,alphabet=ab", [["ab"]], () => 0.9);
    const all = ["aab", "bab", "bb", "b", "aab", "abb", "aa", "a", "aba", "abb", " ab", " b", "a b", "a ", "ab "];
    expect(new Set(queries.flat())).toEqual(new Set(all));
  });

  test("two edits reach what one does not", async () => {
    const gold = (text: string): number => (text === "xx" ? 0.1 : text === "xb" ? 0.7 : 0.9);
    const { final, result } = await run("charmer:edits=2,alphabet=x", [["ab"]], gold);
    expect({ final, outcome: result.outcome }).toEqual({ final: "xx", outcome: "success" });
  });
});

test("a fraction of words is rounded up, in every attack", async () => {
  const words = Array.from({ length: 15 }, (_, i) => [`w${i}`, `x${i}`]);
  const example = createExample("0", words);
  for (const constraint of [maxModificationRate(0.1, 0), maxWordsChanged({ fraction: 0.1 })]) {
    const attack = await createTableAttack("pwws", [example], [constraint]);
    const { queries } = drive(attack, example, (text) => 0.9 - 0.01 * (text.match(/x/g)?.length ?? 0), new Rng(0));
    expect(Math.max(...queries.flat().map((text) => text.match(/x/g)?.length ?? 0))).toBe(2);
  }
});
