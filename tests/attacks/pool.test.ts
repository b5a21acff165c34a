import { appendFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { AttackExample } from "../../src/attacks/attack-space.js";
import { loadAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { computeContentKey, openScoreCache, ScoreCache } from "../../src/attacks/score-cache.js";
import type { Attack } from "../../src/attacks/search.js";
import type { Victim } from "../../src/attacks/victim.js";
import { temporaryFolder } from "../temporary.js";
import { collect, createExample, hashed, type ScriptedInput, scriptedVictim } from "./scripted.js";

const folder = temporaryFolder();

/** Texts with a small vocabulary, so that examples have candidates in common and use the cache. */
const examplesArbitrary = fc
  .array(fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 9 })
  .map((texts) =>
    texts.map((words, i) =>
      createExample(
        `example ${i}`,
        words.map((word) => [`w${word}`, ...Array.from({ length: word % 4 }, (_, k) => `s${word}${k}`)]),
        i % 2,
      ),
    ),
  );

async function loadAttacks(): Promise<Attack[]> {
  return [
    await loadAttack("pwws"),
    await loadAttack("genetic", { population: 4, iterations: 3 }),
    await loadAttack("greedy"),
    await loadAttack("random", { samples: 9 }),
    await loadAttack("exhaustive", { maxCandidates: 50 }),
  ];
}

describe("SearchPool", () => {
  test("results do not depend on concurrency, batch size, cache size or order", async () => {
    const attacks = await loadAttacks();
    const run = (
      examples: AttackExample[],
      attack: Attack,
      budget: number,
      sizes: { concurrency: number; maxPendingTexts: number; batchSize: number; entries: number },
    ) => {
      const cache = new ScoreCache(2, { entries: sizes.entries });
      const pool = new SearchPool(scriptedVictim(2, hashed(2), sizes.batchSize), { ...sizes, cache });
      return collect(pool.run(examples, attack, { seed: 7, budget }));
    };
    const size = (max: number) => fc.integer({ min: 1, max });
    await fc.assert(
      fc.asyncProperty(
        examplesArbitrary,
        size(8),
        size(20),
        size(9),
        size(30),
        size(60),
        async (examples, concurrency, maxPendingTexts, batchSize, entries, budget) => {
          const sizes = { concurrency, maxPendingTexts, batchSize, entries };
          const smallest = { concurrency: 1, maxPendingTexts: 1, batchSize: 1, entries: 10_000 };
          for (const attack of attacks) {
            const expected = await run(examples, attack, budget, smallest);
            const reversed = await run([...examples].reverse(), attack, budget, sizes);
            expect(await run(examples, attack, budget, sizes)).toEqual(expected);
            expect(reversed.reverse()).toEqual(expected);
            expect(Math.max(...expected.map((result) => result.queries))).toBeLessThanOrEqual(budget);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("scores every distinct text once, in batches of similar length", async () => {
    const victim = scriptedVictim(2, () => [0.9, 0.1], 4);
    const examples = [5, 1, 3, 1, 5, 3].map((length, i) =>
      createExample(
        `${i}`,
        Array.from({ length }, () => ["a", "b"]),
      ),
    );
    const pool = new SearchPool(victim);
    await collect(pool.run(examples, await loadAttack("exhaustive"), { seed: 1 }));
    const texts = victim.calls.flat();
    expect(new Set(texts).size).toBe(texts.length);
    expect(pool.counters.evaluations).toBe(2 + 8 + 32);
    for (const call of victim.calls) expect(call.length).toBeLessThanOrEqual(4);
    // The first round has three distinct original texts, shortest first.
    expect(victim.calls[0]).toEqual(["a", "a a a", "a a a a a"]);
  });

  test("skips misclassified examples, and counts a tie as correct", async () => {
    const answers: Record<string, number[]> = { a: [0.4, 0.6], b: [0.5, 0.5], c: [0.50001, 0.49999] };
    const examples = Object.keys(answers).map((word) => createExample(word, [[word]]));
    const results = await collect(
      new SearchPool(scriptedVictim(2, (text) => answers[text]!)).run(examples, await loadAttack("pwws"), { seed: 1 }),
    );
    expect(results.map(({ outcome, nearTie, queries }) => ({ outcome, nearTie, queries }))).toEqual([
      { outcome: "skipped", nearTie: false, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
    ]);
  });

  test("stops a search at its query budget with the best text so far", async () => {
    const replacements = [
      ["a", "x", "y"],
      ["b", "z"],
    ];
    const gold: Record<string, number> = { "a b": 0.9, "_ b": 0.8, "a _": 0.8, "x b": 0.7, "y b": 0.8, "a z": 0.2 };
    const run = async (budget: number) => {
      const victim = scriptedVictim(2, (text) => [gold[text] ?? 0.1, 1 - (gold[text] ?? 0.1)]);
      return (
        await collect(
          new SearchPool(victim).run([createExample("1", replacements)], await loadAttack("pwws"), { seed: 1, budget }),
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

  test("rejects candidates outside the attack space", async () => {
    const invalid: Attack = {
      name: "mine",
      options: {},
      hasBudget: false,
      *search() {
        yield [{ replacementIndices: Int16Array.from([2]) }];
        return { replacementIndices: Int16Array.from([0]) };
      },
    };
    const run = collect(
      new SearchPool(scriptedVictim(2, () => [0.9, 0.1])).run([createExample("1", [["a", "b"]])], invalid, { seed: 1 }),
    );
    await expect(run).rejects.toThrow("attack mine: word 0 has 2 replacements, but a candidate uses index 2");
  });

  test("rejects probabilities of the wrong shape, and NaN", async () => {
    for (const row of [[0.1, 0.2, 0.7], [Number.NaN, 1], []]) {
      const run = new SearchPool(scriptedVictim(2, () => row)).run(
        [createExample("1", [["a", "b"]])],
        await loadAttack("greedy"),
        { seed: 1 },
      );
      await expect(collect(run)).rejects.toThrow("script: expected 2 finite probabilities per text");
    }
  });

  test("memory does not grow with the number of examples", async () => {
    let alive = 0;
    let maxAlive = 0;
    function* stream(): Generator<AttackExample> {
      for (let i = 0; i < 500; i++) {
        maxAlive = Math.max(maxAlive, ++alive);
        yield createExample(`${i}`, [["a", "b"], [`w${i}`]]);
      }
    }
    const pool = new SearchPool(scriptedVictim(2, hashed(2)), {
      concurrency: 16,
      cache: new ScoreCache(2, { entries: 100 }),
    });
    for await (const _ of pool.run(stream(), await loadAttack("greedy"), { seed: 1 })) alive--;
    expect(maxAlive).toBe(16);
  });
});

describe("an interrupted pool", () => {
  afterEach(() => vi.restoreAllMocks());

  /** Eighty texts of two to seven words. Each takes one large round and a few small ones. */
  const examples = Array.from({ length: 80 }, (_, i) =>
    createExample(
      `${i}`,
      Array.from({ length: 2 + (i % 6) }, (_, k) => [`w${i}-${k}`, "a", "b", "c"]),
      i % 2,
    ),
  );

  test("finishes early examples before it starts late ones, in order and in full batches", async () => {
    const victim = scriptedVictim(2, hashed(2), 8);
    const pool = new SearchPool(victim, { concurrency: 80 });
    const finished: number[] = [];
    for await (const _ of pool.run(examples, await loadAttack("pwws"), { seed: 1 })) finished.push(victim.calls.length);
    const total = victim.calls.length;
    // A quarter of the examples is done after less than half of the work, and progress is steady.
    expect(finished[19]).toBeLessThan(0.45 * total);
    expect(finished[59]).toBeLessThan(0.9 * total);
    const sizes = victim.calls.map((call) => call.length);
    expect(sizes.filter((size) => size === 8).length).toBeGreaterThan(0.5 * total);
  });

  test.each([
    ["", false],
    [", also of confirmations", true],
  ])("has lost at most the scores of the last call, and repeats the other calls exactly%s", async (_, isConfirmed) => {
    const attack = await loadAttack("pwws");
    // Every call takes longer than scores may wait.
    let time = 0;
    vi.spyOn(performance, "now").mockImplementation(() => (time += 2000));
    const run = async (path: string, failAt = Number.POSITIVE_INFINITY, skip = 0) => {
      let count = 0;
      const calls: string[][] = [];
      const createFailing = (name: string): Victim<ScriptedInput> => {
        const victim = scriptedVictim(2, hashed(2), 16);
        return {
          ...victim,
          probabilities: async (inputs) => {
            if (++count === failAt) throw new Error("killed");
            calls.push([name, ...inputs.map(({ content }) => String(content))]);
            return victim.probabilities(inputs);
          },
        };
      };
      const failing = { ...createFailing("search"), ...(isConfirmed && { exact: createFailing("confirmation") }) };
      const [cache, exactCache] = [path, `${path}-exact`].map((each) => new ScoreCache(2, { path: each }));
      const pool = new SearchPool(failing, { concurrency: 16, cache: cache!, exactCache: exactCache! });
      const ids: string[] = [];
      // The cache is not closed: a killed process does not flush it.
      try {
        for await (const { id } of pool.run(examples, attack, { seed: 1, skip })) ids.push(id);
      } catch (error) {
        expect(error).toMatchObject({ message: "killed" });
      }
      return { ids, calls };
    };
    const whole = await run(join(folder, `undisturbed-${isConfirmed}`));
    const confirmations = whole.calls.filter(([name]) => name === "confirmation");
    // A round of 32 texts is searched in two calls and confirmed together.
    expect(Math.max(...confirmations.map((call) => call.length - 1), 0)).toBe(isConfirmed ? 16 : 0);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: whole.calls.length }), async (failAt) => {
        const path = join(folder, `killed-${isConfirmed}-${failAt}-${time}`);
        const before = await run(path, failAt);
        const after = await run(path, undefined, before.ids.length);
        expect([...before.ids, ...after.ids]).toEqual(whole.ids);
        expect([...before.calls, ...after.calls]).toEqual(whole.calls);
      }),
      { numRuns: 25 },
    );
  });

  test("without stored scores, runs only the unfinished examples", async () => {
    const victim = scriptedVictim(2, hashed(2));
    const pool = new SearchPool(victim, { concurrency: 80 });
    const results = await collect(pool.run(examples, await loadAttack("greedy"), { seed: 1, skip: 70 }));
    expect(results.map(({ id }) => id)).toEqual(examples.slice(70).map(({ id }) => id));
    expect(victim.calls.flat().some((text) => text.includes("w69-"))).toBe(false);
  });
});

describe("ScoreCache", () => {
  test("is on disk only for deterministic victims, and in memory if the folder is not writable", async () => {
    const reopen = async (cache: string, isDeterministic: boolean) => {
      vi.stubEnv("TEMPER_CACHE", cache);
      const scoreCache = openScoreCache({ numLabels: 2, hash: "h", isDeterministic });
      scoreCache.set("k".repeat(16), [0.25, 0.75]);
      scoreCache.close();
      return openScoreCache({ numLabels: 2, hash: "h", isDeterministic }).get("k".repeat(16));
    };
    expect(await reopen(join(folder, "one"), true)).toEqual(Float32Array.of(0.25, 0.75));
    expect(await reopen(join(folder, "two"), false)).toBeUndefined();
    writeFileSync(join(folder, "file"), "");
    expect(await reopen(join(folder, "file"), true)).toBeUndefined();
    vi.unstubAllEnvs();
  });

  test("continues in memory if the disk is full", () => {
    const cache = new ScoreCache(2, { path: "/dev/full" });
    cache.set("a".repeat(16), [0.25, 0.75]);
    cache.flush();
    cache.close();
    expect([...cache.get("a".repeat(16))!]).toEqual([0.25, 0.75]);
  });

  test("serves a second run from disk, and ignores incomplete and damaged records", async () => {
    const path = join(folder, "scores");
    const examples = Array.from({ length: 20 }, (_, i) =>
      createExample(`${i}`, [
        ["a", "b"],
        [`w${i}`, "x"],
      ]),
    );
    const run = async () => {
      const cache = new ScoreCache(2, { path });
      const pool = new SearchPool(scriptedVictim(2, hashed(2)), { cache });
      const results = await collect(pool.run(examples, await loadAttack("greedy"), { seed: 1 }));
      cache.close();
      return { results, evaluations: pool.counters.evaluations };
    };
    const first = await run();
    expect(first.evaluations).toBeGreaterThan(20);
    expect(await run()).toEqual({ results: first.results, evaluations: 0 });
    truncateSync(path, statSync(path).size - 5);
    expect(await run()).toEqual({ results: first.results, evaluations: 1 });
    appendFileSync(path, Buffer.alloc(28, 7));
    expect(await run()).toEqual({ results: first.results, evaluations: 0 });
  });

  test("keeps recently used scores when it is full", () => {
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
