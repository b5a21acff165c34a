import { existsSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { computeContentKey, removeOldest, ScoreCache } from "../../src/models/inference/score-cache.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

describe("the score cache on disk", () => {
  test("does not grow without limit, and keeps the newest scores", () => {
    const path = join(folder, "scores");
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
    expect(["old", "middle", "new", "mine"].map((name) => existsSync(join(inside, name)))).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });
});
