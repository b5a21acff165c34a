import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { computeContentKey, ScoreCache } from "../src/attacks/score-cache.js";
import { getCached, getCachedBytes, getCacheFolder } from "../src/cache.js";
import { temporaryFolder } from "./temporary.js";

const parent = temporaryFolder();
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(parent, "cache-"));
  vi.stubEnv("TEMPER_CACHE", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Counts how often a value is made. */
function maker<T>(value: T) {
  return vi.fn(async () => value);
}

describe("the cache", () => {
  it("lies where it is told to, or in the user's cache folder", () => {
    expect(getCacheFolder()).toBe(folder);
    vi.stubEnv("TEMPER_CACHE", "");
    vi.stubEnv("XDG_CACHE_HOME", "/somewhere");
    expect(getCacheFolder()).toBe(join("/somewhere", "temper"));
    vi.stubEnv("XDG_CACHE_HOME", "");
    expect(getCacheFolder()).toBe(join(homedir(), ".cache", "temper"));
  });

  it("makes a value once for each key", async () => {
    const make = maker({ text: "café", numbers: [1, 2] });
    for (let i = 0; i < 3; i++)
      expect(await getCached("kind", ["a", 1], make)).toEqual({ text: "café", numbers: [1, 2] });
    expect(make).toHaveBeenCalledTimes(1);
    await getCached("kind", ["a1"], make);
    await getCached("kind", ["a", "1"], make);
    await getCached("other", ["a", 1], make);
    expect(make).toHaveBeenCalledTimes(4);
  });

  it("keeps bytes, also none", async () => {
    for (const bytes of [new Uint8Array([0, 255, 10]), new Uint8Array()]) {
      const make = maker(bytes);
      await getCachedBytes("bytes", [bytes.length], make);
      expect(new Uint8Array(await getCachedBytes("bytes", [bytes.length], make))).toEqual(bytes);
      expect(make).toHaveBeenCalledTimes(1);
    }
  });

  it("makes a damaged entry again", async () => {
    const make = maker([1, 2, 3]);
    await getCached("kind", ["key"], make);
    const path = join(folder, "kind", (await readdir(join(folder, "kind")))[0]!);
    const whole = await readFile(path);
    const flipped = Buffer.from(whole);
    flipped[65]! ^= 1;
    for (const damaged of [flipped, whole.subarray(0, -1), whole.subarray(0, 10), Buffer.alloc(0)]) {
      await writeFile(path, damaged);
      expect(await getCached("kind", ["key"], make)).toEqual([1, 2, 3]);
      expect(await readFile(path)).toEqual(whole);
    }
    expect(make).toHaveBeenCalledTimes(5);
  });

  it("gives the value where nothing can be written", async () => {
    vi.stubEnv("TEMPER_CACHE", join(folder, "file", "below"));
    await writeFile(join(folder, "file"), "");
    expect(await getCached("kind", ["key"], maker("value"))).toBe("value");
  });

  it("is made by one and waited for by the others when many ask at once", async () => {
    const make = maker("x".repeat(100_000));
    const values = await Promise.all(Array.from({ length: 20 }, () => getCached("kind", ["key"], make)));
    expect(new Set(values).size).toBe(1);
    expect(make).toHaveBeenCalledTimes(1);
    expect(await readdir(join(folder, "kind"))).toHaveLength(1);
  });

  it("is made by another where its maker failed or died", async () => {
    const failing = vi.fn(async () => Promise.reject(new Error("no")));
    await expect(getCached("kind", ["key"], failing)).rejects.toThrow("no");
    await mkdir(join(folder, "kind"), { recursive: true });
    const entry = (name: string): string =>
      createHash("sha256")
        .update(JSON.stringify([name]))
        .digest("hex");
    // The lock of a process that is no more.
    await writeFile(
      join(folder, "kind", `${entry("dead")}.lock`),
      JSON.stringify({ pid: 4_000_000, host: hostname(), started: "1" }),
    );
    expect(await getCached("kind", ["dead"], maker("made"))).toBe("made");
    expect((await readdir(join(folder, "kind"))).filter((name) => name.includes("lock"))).toEqual([]);
  });

  it("lets several append scores to one file: whoever reads it later finds all of them", () => {
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
