import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { loadTask } from "../../src/tasks/index.js";
import { countOverlap } from "../../src/tasks/sample.js";
import type { Split } from "../../src/tasks/task.js";
import { chooseExtent } from "../extent.js";

const data = join(process.env.TEMPER_SHARED ?? join("..", "shared"), "data");

/** Examples by split. If validation is held out, its examples count for train. */
const published: Record<string, Partial<Record<Split, number>>> = {
  sst2: { train: 67_349, test: 872 },
  rte: { train: 2_490, test: 277 },
  qnli: { train: 9_999, test: 5_463 },
  qqp: { train: 37_588, test: 20_215 },
  "advglue:sst2": { test: 148 },
  "advglue:qqp": { test: 78 },
  "advglue:mnli": { test: 121 },
  "advglue:mnli-mm": { test: 162 },
  "advglue:qnli": { test: 148 },
  "advglue:rte": { test: 81 },
  snli: { train: 31_202, validation: 9_842, test: 9_824 },
  imdb: { train: 25_000, test: 25_000 },
};

describe.skipIf(!existsSync(data))("published datasets (skipped without ../shared/data)", () => {
  beforeAll(() => void vi.stubEnv("TEMPER_DATA", data));
  afterAll(() => void vi.unstubAllEnvs());

  // Reading all of the large ones takes long.
  const maxExamples = chooseExtent(20_000, 100_000);
  const chosen = Object.entries(published).filter(([, { train = 0 }]) => train <= maxExamples);

  it.each(chosen)("%s has all its examples", async (name, counts) => {
    const task = await loadTask({ task: name });
    const loaded = new Map(
      await Promise.all(task.splits.map(async (split) => [split, await task.load(split)] as const)),
    );
    const heldOut = counts.validation === undefined ? loaded.get("validation") : undefined;
    for (const [split, count] of Object.entries(counts)) {
      const moved = split === "train" ? (heldOut ?? []) : [];
      expect(loaded.get(split as Split)!.length + moved.length, split).toBe(count);
    }
    for (const examples of loaded.values()) {
      expect(new Set(examples.map((example) => example.id)).size).toBe(examples.length);
      expect(new Set(examples.map((example) => example.label)).size).toBe(task.labels.length);
    }
    if (heldOut !== undefined) {
      expect(countOverlap(loaded.get("train")!, heldOut)).toBe(0);
      const expected = Math.min(counts.train! / 10, 2_000);
      expect(Math.abs(heldOut.length - expected)).toBeLessThan(expected / 20);
    }
  });

  it("MR has two classes of equal size, and no duplicates across splits", async () => {
    const task = await loadTask({ task: "mr" });
    const [train, validation, test] = await Promise.all(
      (["train", "validation", "test"] as const).map((split) => task.load(split)),
    );
    const all = [...train!, ...validation!, ...test!];
    expect([all.length, all.filter((example) => example.label === 1).length]).toEqual([10_662, 5_331]);
    expect(countOverlap(train!, [...validation!, ...test!])).toBe(0);
  });

  it("the features of MSGS agree in-domain and disagree in the disambiguating part", async () => {
    const task = await loadTask({ task: "msgs:control_raising_length" });
    const [train, inDomain, disambiguating] = await Promise.all(
      (["train", "validation", "test"] as const).map((split) => task.load(split)),
    );
    expect(train).toHaveLength(452);
    const isLong = (examples: { texts: readonly string[] }[]) =>
      examples.map((example) => (example.texts[0]!.split(" ").length > 14 ? 1 : 0));
    expect(isLong(inDomain!)).toEqual(inDomain!.map((example) => example.label));
    expect(isLong(disambiguating!)).toEqual(disambiguating!.map((example) => 1 - example.label));
  });
});
