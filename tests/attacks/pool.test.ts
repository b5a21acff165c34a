import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ReadyAttack } from "../../src/attacks/define-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { Constraint, QueryBudget } from "../../src/attacks/protocol.js";
import { type Resource, request } from "../../src/attacks/requests.js";
import { Interrupted } from "../../src/base/errors.js";
import { confirmAnswers } from "../../src/models/inference/confirm-answers.js";
import { splitCalls } from "../../src/models/inference/predict-in-calls.js";
import type { PreparedText } from "../../src/models/inference/predictor.js";
import { ScoreCache } from "../../src/models/inference/score-cache.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import {
  attackExamples,
  collect,
  createExample,
  createTableAttack,
  hashed,
  type ScriptedExample,
  type ScriptedVictim,
  scriptedVictim,
} from "./scripted.js";

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

/** Every kind of search, with swaps, insertions, deletions and other characters. */
const specs = [
  ...["pwws", "pwws:adaptive=true", "genetic:population=4,iterations=3", "greedy", "random:samples=9"],
  ...["exhaustive:maxCandidates=50", "deepwordbug", "pruthi", "input-reduction:beamWidth=2", "checklist"],
  ...["alzantot:population=4,iterations=2", "iga:population=4,iterations=2", "leap:population=3,iterations=2"],
  ...["pso:population=3,iterations=2", "bad-characters:population=2,iterations=2"],
  ...["guard:benignLabel=1,maxAddedWords=2,placement=insert,maxQueries=60", "pwws:compat=textattack"],
];

describe("SearchPool", () => {
  test.each(specs)("%s: results do not depend on concurrency, batch size, cache size or order", async (spec) => {
    const run = (
      examples: ScriptedExample[],
      attack: ReadyAttack,
      budget: number,
      sizes: { concurrency: number; maxPendingTexts: number; batchSize: number; entries: number },
    ) => {
      const cache = new ScoreCache(2, { entries: sizes.entries });
      const pool = new SearchPool(scriptedVictim(2, hashed(2), sizes.batchSize), { ...sizes, openCache: () => cache });
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
          const attack = await createTableAttack(spec, examples);
          const expected = await run(examples, attack, budget, smallest);
          const reversed = await run([...examples].reverse(), attack, budget, sizes);
          expect(await run(examples, attack, budget, sizes)).toEqual(expected);
          expect(reversed.reverse()).toEqual(expected);
          expect(Math.max(...expected.map((result) => result.queries))).toBeLessThanOrEqual(budget);
        },
      ),
      { numRuns: 12 },
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
    await collect(pool.run(examples, await createTableAttack("exhaustive", examples), { seed: 1 }));
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
    const victim = scriptedVictim(2, (text) => answers[text]!);
    const results = await attackExamples(victim, "pwws", examples);
    expect(results.map(({ outcome, nearTie, queries }) => ({ outcome, nearTie, queries }))).toEqual([
      { outcome: "skipped", nearTie: false, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
      { outcome: "failed", nearTie: true, queries: 1 },
    ]);
  });

  test("asks a resource for the next searches only, so that the first candidates are scored soon", async () => {
    const order: string[] = [];
    const encoder: Resource<string, number> = {
      ...{ name: "counting", kind: "encoder" },
      async compute(inputs) {
        order.push(`${inputs.length} inputs`);
        return inputs.map(() => 0);
      },
    };
    const substitutes = ["a", "b", "c", "d", "e", "f"];
    const examples = Array.from({ length: 6 }, (_, i) => createExample(`${i}`, [[`w${i}`, ...substitutes]]));
    const attack = await createTableAttack("greedy", examples);
    const costly: Constraint = {
      name: "costly",
      *filter(candidates) {
        yield* request(encoder, new Array<string>(1500).fill(""));
        return candidates;
      },
    };
    const victim = scriptedVictim(2, (text) => {
      order.push(text);
      return [0.9, 0.1];
    });
    const pool = new SearchPool(victim, { maxPendingTexts: 6 });
    const recipe = { ...attack.recipe, constraints: [costly] };
    await collect(pool.run(examples, { ...attack, recipe }, { seed: 0 }));
    // The size of the space and the search ask once each, for two searches together.
    expect(order.slice(6, 9)).toEqual(["3000 inputs", "3000 inputs", "a"]);
    expect(order.slice(9).filter((each) => each.endsWith("inputs"))).not.toEqual([]);
  });

  test("stops a search at its query budget with the best text so far", async () => {
    const replacements = [
      ["a", "x", "y"],
      ["b", "z"],
    ];
    const gold: Record<string, number> = { "a b": 0.9, "_ b": 0.8, "a _": 0.8, "x b": 0.7, "y b": 0.8, "a z": 0.2 };
    const run = async (budget: QueryBudget) => {
      const victim = scriptedVictim(2, (text) => [gold[text] ?? 0.1, 1 - (gold[text] ?? 0.1)]);
      return (await attackExamples(victim, "pwws", [createExample("1", replacements)], { budget }))[0]!;
    };
    expect(await run(4)).toMatchObject({ outcome: "failed", exhausted: true, queries: 4, finalTexts: ["x b"] });
    expect(await run(3)).toMatchObject({ outcome: "failed", exhausted: true, queries: 3, finalTexts: ["a b"] });
    expect(await run(100)).toMatchObject({ outcome: "success", exhausted: false, queries: 7, finalTexts: ["a z"] });
    // The text has two words.
    expect(await run({ perWord: 2 })).toEqual(await run(4));
    expect(await run({ perWord: 50 })).toEqual(await run(100));
  });

  test("pwws chooses the first or the last of equally good substitutes", async () => {
    const gold: Record<string, number> = { a: 0.9, _: 0.8, x: 0.3, y: 0.3, z: 0.6 };
    const run = async (attack: string) => {
      const victim = scriptedVictim(2, (text) => [gold[text]!, 1 - gold[text]!]);
      const examples = [createExample("1", [["a", "x", "y", "z"]])];
      return (await attackExamples(victim, attack, examples))[0]!.finalTexts;
    };
    expect(await run("pwws")).toEqual(["x"]);
    expect(await run("pwws:ties=first")).toEqual(["x"]);
    expect(await run("pwws:ties=last")).toEqual(["y"]);
  });

  test("genetic changes words that the victim does not read only with words=all", async () => {
    const example = createExample("1", [["a"], ["b", "x"]]);
    // The victim reads one word, which has no substitutes.
    const answer = scriptedVictim(2, (text) => (text.startsWith("a") ? [0.9, 0.1] : [0.1, 0.9]));
    const victim = {
      ...answer,
      findWords: () => [{ field: 0, start: 0, end: 1 }],
      findAllWords: answer.findWords,
    };
    const run = async (attack: string) =>
      (await attackExamples(victim, `${attack}population=4,iterations=2`, [example]))[0]!;
    expect(await run("genetic:")).toMatchObject({ words: ["a"], queries: 1 });
    const all = await run("genetic:words=all,");
    expect(all).toMatchObject({ words: ["a", "b"], outcome: "failed" });
    expect(all.queries).toBeGreaterThan(1);
  });

  test("tells what the victim has scored, and stops between two of its calls", async () => {
    const victim = scriptedVictim(2, () => [0.9, 0.1]);
    const example = createExample("1", [
      ["a", "b", "c"],
      ["d", "e"],
    ]);
    const attack = await createTableAttack("pwws", [example]);
    const seen: string[] = [];
    const stop = new AbortController();
    const pool = new SearchPool(victim, { maxCallSize: 2 });
    const results = pool.run([example], attack, {
      seed: 1,
      signal: stop.signal,
      onScores(id, scored) {
        expect(scored.length).toBeLessThanOrEqual(2);
        for (const { text, hidden } of scored) seen.push(`${id} ${hidden ? "hidden" : text.texts[0]}`);
        if (seen.length > 3) stop.abort();
      },
    });
    await expect(collect(results)).rejects.toThrow(Interrupted);
    expect(seen).toEqual(["1 a d", "1 hidden", "1 hidden", "1 b d", "1 c d"]);
    expect(victim.calls).toHaveLength(3);
  });

  test("rejects probabilities of the wrong shape, and NaN", async () => {
    for (const row of [[0.1, 0.2, 0.7], [Number.NaN, 1], []]) {
      const run = attackExamples(
        scriptedVictim(2, () => row),
        "greedy",
        [createExample("1", [["a", "b"]])],
      );
      await expect(run).rejects.toThrow("script: expected 2 finite probabilities per text");
    }
  });

  test("memory does not grow with the number of examples", async () => {
    let alive = 0;
    let maxAlive = 0;
    function* stream(): Generator<ScriptedExample> {
      for (let i = 0; i < 500; i++) {
        maxAlive = Math.max(maxAlive, ++alive);
        yield createExample(`${i}`, [["a", "b"], [`w${i}`]]);
      }
    }
    const pool = new SearchPool(scriptedVictim(2, hashed(2)), {
      concurrency: 16,
      openCache: () => new ScoreCache(2, { entries: 100 }),
    });
    const greedy = await createTableAttack("greedy", [createExample("0", [["a", "b"]])]);
    for await (const _ of pool.run(stream(), greedy, { seed: 1 })) alive--;
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
    for await (const _ of pool.run(examples, await createTableAttack("pwws", examples), { seed: 1 }))
      finished.push(victim.calls.length);
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
    const attack = await createTableAttack("pwws", examples);
    // Every call takes longer than scores may wait.
    let time = 0;
    vi.spyOn(performance, "now").mockImplementation(() => (time += 2000));
    const run = async (path: string, failAt = Number.POSITIVE_INFINITY, skip = 0) => {
      let count = 0;
      const calls: string[][] = [];
      const createFailing = (name: string): ScriptedVictim => {
        const victim = scriptedVictim(2, hashed(2), 16);
        return splitCalls({
          ...victim,
          hash: name,
          predict: async (items: readonly PreparedText[]) => {
            if (++count === failAt) throw new Error("killed");
            calls.push([name, ...items.map(({ content }) => String(content))]);
            return victim.predict(items);
          },
        });
      };
      const search = createFailing("search");
      const failing = isConfirmed
        ? confirmAnswers(search, createFailing("confirmation"), Number.POSITIVE_INFINITY)
        : search;
      const pool = new SearchPool(failing, {
        concurrency: 16,
        openCache: ({ hash }) => new ScoreCache(2, { path: `${path}-${hash}` }),
      });
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
      { numRuns: chooseExtent(8, 25) },
    );
  });

  test("without stored scores, runs only the unfinished examples", async () => {
    const victim = scriptedVictim(2, hashed(2));
    const pool = new SearchPool(victim, { concurrency: 80 });
    const results = await collect(
      pool.run(examples, await createTableAttack("greedy", examples), { seed: 1, skip: 70 }),
    );
    expect(results.map(({ id }) => id)).toEqual(examples.slice(70).map(({ id }) => id));
    expect(victim.calls.flat().some((text) => text.includes("w69-"))).toBe(false);
  });
});
