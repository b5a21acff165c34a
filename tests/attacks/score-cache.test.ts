import { appendFileSync, readdirSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { SearchPool } from "../../src/attacks/pool.js";
import { computeContentKey, openScoreCache, removeOldest, ScoreCache } from "../../src/models/inference/score-cache.js";
import { temporaryFolder } from "../temporary.js";
import { collect, createExample, createTableAttack, hashed, scriptedVictim } from "./scripted.js";

const folder = temporaryFolder();

describe("the score cache", () => {
  test("does not grow without limit, and keeps the newest scores", () => {
    const path = join(folder, "grown");
    const recordBytes = 16 + 8 + 4;
    for (let round = 0; round < 6; round++) {
      const cache = new ScoreCache(2, { path, entries: 200 });
      for (let i = 0; i < 5000; i++) {
        cache.set(computeContentKey(`text ${round} ${i}`), [0.25, 0.75]);
        if (i % 50 === 0) cache.flush();
      }
      cache.close();
      expect(statSync(path).size).toBeLessThanOrEqual((4 * 100 + 60) * recordBytes);
    }
    const cache = new ScoreCache(2, { path, entries: 200 });
    const newest = computeContentKey("text 5 250");
    expect(Array.from(cache.get(newest) ?? [])).toEqual([0.25, 0.75]);
    cache.close();
    expect(readdirSync(folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("removes the files that were not used for longest", () => {
    const inside = temporaryFolder();
    for (const [i, name] of ["old", "middle", "new", "mine"].entries()) {
      writeFileSync(join(inside, name), Buffer.alloc(1000));
      utimesSync(join(inside, name), 1000 + i, 1000 + i);
    }
    removeOldest(inside, "mine", 2500);
    expect(readdirSync(inside).sort()).toEqual(["middle", "mine", "new"]);
  });

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
      const pool = new SearchPool(scriptedVictim(2, hashed(2)), { openCache: () => cache });
      const results = await collect(pool.run(examples, await createTableAttack("greedy", examples), { seed: 1 }));
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
