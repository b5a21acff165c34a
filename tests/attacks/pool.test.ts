import { appendFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Attack } from "../../src/attacks/attack-definition.js";
import type { AttackExample } from "../../src/attacks/attack-space.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { computeContentKey, openScoreCache, ScoreCache } from "../../src/attacks/score-cache.js";
import { temporaryFolder } from "../temporary.js";
import { attack, collect, hashed, scriptedVictim, targetOfChoices } from "./scripted.js";

const folder = temporaryFolder();

/** Texts over few words, so that examples share candidates and the cache has work. */
const targetsArbitrary = fc
  .array(fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 9 })
  .map((texts) =>
    texts.map((words, i) =>
      targetOfChoices(
        `example ${i}`,
        words.map((word) => [`w${word}`, ...Array.from({ length: word % 4 }, (_, k) => `s${word}${k}`)]),
        i % 2,
      ),
    ),
  );

async function attacks(): Promise<Attack[]> {
  return [
    await attack("pwws"),
    await attack("genetic", { population: 4, iterations: 3 }),
    await attack("greedy"),
    await attack("random", { samples: 9 }),
    await attack("exhaustive", { budget: 50 }),
  ];
}

describe("the pool", () => {
  test("gives the same results at any pool size, batch size, memory and order", async () => {
    const searches = await attacks();
    const run = (
      targets: AttackExample[],
      which: Attack,
      options: { searches: number; waiting: number; capacity: number; entries: number; budget: number },
    ) => {
      const pool = new SearchPool(scriptedVictim(2, hashed(2), options.capacity), {
        ...options,
        cache: new ScoreCache(2, { entries: options.entries }),
      });
      return collect(pool.run(targets, which, { seed: 7, budget: options.budget }));
    };
    const size = (max: number) => fc.integer({ min: 1, max });
    await fc.assert(
      fc.asyncProperty(
        targetsArbitrary,
        size(8),
        size(20),
        size(9),
        size(30),
        size(60),
        async (targets, pool, waiting, capacity, entries, budget) => {
          for (const which of searches) {
            const expected = await run(targets, which, {
              searches: 1,
              waiting: 1,
              capacity: 1,
              entries: 10_000,
              budget,
            });
            const found = await run(targets, which, { searches: pool, waiting, capacity, entries, budget });
            const reversed = await run([...targets].reverse(), which, {
              searches: pool,
              waiting,
              capacity,
              entries,
              budget,
            });
            expect(found).toEqual(expected);
            expect(reversed.reverse()).toEqual(expected);
            expect(Math.max(...expected.map((result) => result.queries))).toBeLessThanOrEqual(budget);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("scores every distinct text once, in batches of like length", async () => {
    const victim = scriptedVictim(2, () => [0.9, 0.1], 4);
    const targets = [5, 1, 3, 1, 5, 3].map((length, i) =>
      targetOfChoices(
        `${i}`,
        Array.from({ length }, () => ["a", "b"]),
      ),
    );
    const pool = new SearchPool(victim);
    await collect(pool.run(targets, await attack("exhaustive"), { seed: 1 }));
    const texts = victim.calls.flat();
    expect(new Set(texts).size).toBe(texts.length);
    expect(pool.counters.forwarded).toBe(2 + 8 + 32);
    for (const call of victim.calls) expect(call.length).toBeLessThanOrEqual(4);
    // The first round: three distinct originals, shortest first.
    expect(victim.calls[0]).toEqual(["a", "a a a", "a a a a a"]);
  });

  test("skips what was wrong from the start, and holds a tie to be right", async () => {
    const answers: Record<string, number[]> = { a: [0.4, 0.6], b: [0.5, 0.5], c: [0.50001, 0.49999] };
    const targets = Object.keys(answers).map((word) => targetOfChoices(word, [[word]]));
    const results = await collect(
      new SearchPool(scriptedVictim(2, (text) => answers[text]!)).run(targets, await attack("pwws"), { seed: 1 }),
    );
    expect(results.map(({ outcome, nearTie, queries }) => ({ outcome, nearTie, queries }))).toEqual([
      { outcome: "skipped", nearTie: false, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
    ]);
  });

  test("ends a search at its budget with the best text so far", async () => {
    const choices = [
      ["a", "x", "y"],
      ["b", "z"],
    ];
    const gold: Record<string, number> = { "a b": 0.9, "_ b": 0.8, "a _": 0.8, "x b": 0.7, "y b": 0.8, "a z": 0.2 };
    const run = async (budget: number) => {
      const victim = scriptedVictim(2, (text) => [gold[text] ?? 0.1, 1 - (gold[text] ?? 0.1)]);
      return (
        await collect(
          new SearchPool(victim).run([targetOfChoices("1", choices)], await attack("pwws"), { seed: 1, budget }),
        )
      )[0]!;
    };
    expect(await run(4)).toMatchObject({ outcome: "failed", exhausted: true, queries: 4, final: ["x", "b"] });
    expect(await run(3)).toMatchObject({
      outcome: "failed",
      exhausted: true,
      queries: 3,
      final: ["a", "b"],
      edits: [],
    });
    expect(await run(100)).toMatchObject({ outcome: "success", exhausted: false, queries: 7, final: ["a", "z"] });
  });

  test("refuses candidates outside the space", async () => {
    const wrong: Attack = {
      name: "mine",
      options: {},
      hasBudget: false,
      *search() {
        yield [{ replacementIndices: Int16Array.from([2]) }];
        return { replacementIndices: Int16Array.from([0]) };
      },
    };
    const run = collect(
      new SearchPool(scriptedVictim(2, () => [0.9, 0.1])).run([targetOfChoices("1", [["a", "b"]])], wrong, { seed: 1 }),
    );
    await expect(run).rejects.toThrow("attack mine: word 0 has 2 choices, a candidate picks number 2");
  });

  test("refuses a victim that gives rows of the wrong shape or NaN", async () => {
    for (const row of [[0.1, 0.2, 0.7], [Number.NaN, 1], []]) {
      const run = new SearchPool(scriptedVictim(2, () => row)).run(
        [targetOfChoices("1", [["a", "b"]])],
        await attack("greedy"),
        { seed: 1 },
      );
      await expect(collect(run)).rejects.toThrow("script: expected 2 finite probabilities a text");
    }
  });

  test("memory does not grow with the number of examples", async () => {
    let alive = 0;
    let most = 0;
    function* stream(): Generator<AttackExample> {
      for (let i = 0; i < 500; i++) {
        most = Math.max(most, ++alive);
        yield targetOfChoices(`${i}`, [["a", "b"], [`w${i}`]]);
      }
    }
    const pool = new SearchPool(scriptedVictim(2, hashed(2)), {
      concurrency: 16,
      cache: new ScoreCache(2, { entries: 100 }),
    });
    for await (const _ of pool.run(stream(), await attack("greedy"), { seed: 1 })) alive--;
    expect(most).toBe(16);
  });
});

describe("the score cache", () => {
  test("lies on disk only where a victim's answers stay true, and is missing quietly where it cannot be written", async () => {
    const before = process.env.TEMPER_CACHE;
    const scores = async (cache: string, stable: boolean) => {
      process.env.TEMPER_CACHE = cache;
      const opened = openScoreCache({ numLabels: 2, hash: "h", isDeterministic: stable });
      opened.set("k".repeat(16), [0.25, 0.75]);
      opened.close();
      return openScoreCache({ numLabels: 2, hash: "h", isDeterministic: stable }).get("k".repeat(16));
    };
    expect(await scores(join(folder, "one"), true)).toEqual(Float32Array.of(0.25, 0.75));
    expect(await scores(join(folder, "two"), false)).toBeUndefined();
    writeFileSync(join(folder, "file"), "");
    expect(await scores(join(folder, "file"), true)).toBeUndefined();
    if (before === undefined) delete process.env.TEMPER_CACHE;
    else process.env.TEMPER_CACHE = before;
  });

  test("goes on in memory where the disk is full", () => {
    const cache = new ScoreCache(2, { path: "/dev/full" });
    cache.set("a".repeat(16), [0.25, 0.75]);
    cache.flush();
    cache.close();
    expect([...cache.get("a".repeat(16))!]).toEqual([0.25, 0.75]);
  });

  test("serves a second run from disk, and survives a torn and a damaged record", async () => {
    const path = join(folder, "scores");
    const targets = Array.from({ length: 20 }, (_, i) =>
      targetOfChoices(`${i}`, [
        ["a", "b"],
        [`w${i}`, "x"],
      ]),
    );
    const run = async () => {
      const cache = new ScoreCache(2, { path });
      const pool = new SearchPool(scriptedVictim(2, hashed(2)), { cache });
      const results = await collect(pool.run(targets, await attack("greedy"), { seed: 1 }));
      cache.close();
      return { results, forwarded: pool.counters.forwarded };
    };
    const first = await run();
    expect(first.forwarded).toBeGreaterThan(20);
    expect(await run()).toEqual({ results: first.results, forwarded: 0 });
    truncateSync(path, statSync(path).size - 5);
    const torn = await run();
    expect(torn).toEqual({ results: first.results, forwarded: 1 });
    appendFileSync(path, Buffer.alloc(28, 7));
    expect(await run()).toEqual({ results: first.results, forwarded: 0 });
  });

  test("keeps what was used lately within its bound", () => {
    const cache = new ScoreCache(1, { entries: 4 });
    const key = (i: number) => computeContentKey(`text ${i}`);
    for (let i = 0; i < 100; i++) {
      cache.set(key(i), [i]);
      expect(cache.get(key(0))).toEqual(Float32Array.of(0));
    }
    expect(cache.get(key(50))).toBeUndefined();
    expect(cache.get(key(99))).toEqual(Float32Array.of(99));
  });
});
