import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { getCached, getCachedBytes, getCacheFolder } from "../../src/base/cache.js";
import { computeContentKey, ScoreCache } from "../../src/models/inference/score-cache.js";
import { temporaryFolder } from "../temporary.js";

const parent = temporaryFolder();
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(parent, "cache-"));
  vi.stubEnv("TEMPER_CACHE", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

/** A mock that returns a value and counts the calls. */
function mockCompute<T>(value: T) {
  return vi.fn(async () => value);
}

describe("the cache", () => {
  it("is in TEMPER_CACHE or the user's cache folder", () => {
    expect(getCacheFolder()).toBe(folder);
    vi.stubEnv("TEMPER_CACHE", "");
    vi.stubEnv("XDG_CACHE_HOME", "/somewhere");
    expect(getCacheFolder()).toBe(join("/somewhere", "temper"));
    vi.stubEnv("XDG_CACHE_HOME", "");
    expect(getCacheFolder()).toBe(join(homedir(), ".cache", "temper"));
  });

  it("computes a value once per key", async () => {
    const compute = mockCompute({ text: "café", numbers: [1, 2] });
    for (let i = 0; i < 3; i++)
      expect(await getCached("kind", ["a", 1], compute)).toEqual({ text: "café", numbers: [1, 2] });
    expect(compute).toHaveBeenCalledTimes(1);
    await getCached("kind", ["a1"], compute);
    await getCached("kind", ["a", "1"], compute);
    await getCached("other", ["a", 1], compute);
    expect(compute).toHaveBeenCalledTimes(4);
  });

  it("stores bytes, also an empty array", async () => {
    for (const bytes of [new Uint8Array([0, 255, 10]), new Uint8Array()]) {
      const compute = mockCompute(bytes);
      await getCachedBytes("bytes", [bytes.length], compute);
      expect(new Uint8Array(await getCachedBytes("bytes", [bytes.length], compute))).toEqual(bytes);
      expect(compute).toHaveBeenCalledTimes(1);
    }
  });

  it("recomputes a damaged entry", async () => {
    const compute = mockCompute([1, 2, 3]);
    await getCached("kind", ["key"], compute);
    const path = join(folder, "kind", (await readdir(join(folder, "kind")))[0]!);
    const intact = await readFile(path);
    const flipped = Buffer.from(intact);
    flipped[65]! ^= 1;
    for (const damaged of [flipped, intact.subarray(0, -1), intact.subarray(0, 10), Buffer.alloc(0)]) {
      await writeFile(path, damaged);
      expect(await getCached("kind", ["key"], compute)).toEqual([1, 2, 3]);
      expect(await readFile(path)).toEqual(intact);
    }
    expect(compute).toHaveBeenCalledTimes(5);
  });

  it("returns the value if the folder is not writable", async () => {
    vi.stubEnv("TEMPER_CACHE", join(folder, "file", "below"));
    await writeFile(join(folder, "file"), "");
    expect(await getCached("kind", ["key"], mockCompute("value"))).toBe("value");
  });

  it("computes once for concurrent requests", async () => {
    const compute = mockCompute("x".repeat(100_000));
    const values = await Promise.all(Array.from({ length: 20 }, () => getCached("kind", ["key"], compute)));
    expect(new Set(values).size).toBe(1);
    expect(compute).toHaveBeenCalledTimes(1);
    expect(await readdir(join(folder, "kind"))).toHaveLength(1);
  });

  it("recomputes if another process failed or died", async () => {
    const failing = vi.fn(async () => Promise.reject(new Error("no")));
    await expect(getCached("kind", ["key"], failing)).rejects.toThrow("no");
    await mkdir(join(folder, "kind"), { recursive: true });
    const entry = (name: string): string =>
      createHash("sha256")
        .update(JSON.stringify([name]))
        .digest("hex");
    // The lock of a dead process.
    await writeFile(
      join(folder, "kind", `${entry("dead")}.lock`),
      JSON.stringify({ pid: 4_000_000, host: hostname(), started: "1" }),
    );
    expect(await getCached("kind", ["dead"], mockCompute("made"))).toBe("made");
    expect((await readdir(join(folder, "kind"))).filter((name) => name.includes("lock"))).toEqual([]);
  });

  it("several score caches can append to one file", () => {
    const path = join(folder, "scores");
    const both = [new ScoreCache(2, { path }), new ScoreCache(2, { path })];
    for (let i = 0; i < 500; i++) {
      const cache = both[i % 2]!;
      cache.set(computeContentKey(`text ${i}`), [i, -i]);
      if (i % 7 === 0) cache.flush();
    }
    for (const cache of both) cache.close();
    const reader = new ScoreCache(2, { path });
    for (let i = 0; i < 500; i++) expect([...(reader.get(computeContentKey(`text ${i}`)) ?? [])]).toEqual([i, -i]);
    reader.close();
  });
});
