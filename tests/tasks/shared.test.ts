import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadTask } from "../../src/tasks/index.js";
import { loadMsgsPart } from "../../src/tasks/msgs.js";
import { countOverlap } from "../../src/tasks/sample.js";
import type { Split } from "../../src/tasks/task.js";

const data = join(process.env.TEMPER_SHARED ?? join("..", "shared"), "data");

/** Examples by split; train and select together are the published train split. */
const published: Record<string, Partial<Record<Split, number>>> = {
  sst2: { train: 67_349, dev: 872 },
  rte: { train: 2_490, dev: 277 },
  qnli: { train: 9_999, dev: 5_463 },
  qqp: { train: 37_588, dev: 20_215 },
  "advglue:sst2": { dev: 148 },
  "advglue:qqp": { dev: 78 },
  "advglue:mnli": { dev: 121 },
  "advglue:mnli-mm": { dev: 162 },
  "advglue:qnli": { dev: 148 },
  "advglue:rte": { dev: 81 },
  snli: { train: 31_202, dev: 9_842, test: 9_824 },
  imdb: { train: 25_000, test: 25_000 },
};

describe.skipIf(!existsSync(data))(
  "the published sets (skipped where there is no shared/data beside the checkout)",
  () => {
    it.each(Object.entries(published))("%s has all its examples", async (name, counts) => {
      const task = await loadTask({ task: name, data });
      const loaded = new Map(
        await Promise.all(task.splits.map(async (split) => [split, await task.load(split)] as const)),
      );
      for (const [split, count] of Object.entries(counts)) {
        const cut = split === "train" ? (loaded.get("select") ?? []) : [];
        expect(loaded.get(split as Split)!.length + cut.length, split).toBe(count);
      }
      for (const examples of loaded.values()) {
        expect(new Set(examples.map((example) => example.id)).size).toBe(examples.length);
        expect(new Set(examples.map((example) => example.label)).size).toBe(task.labels.length);
      }
      const select = loaded.get("select");
      if (select !== undefined) {
        expect(countOverlap(loaded.get("train")!, select)).toBe(0);
        expect(select.length / Math.min(counts.train! / 10, 2_000)).toBeCloseTo(1, 1);
      }
    });

    it("MR comes in two halves and parts no duplicates", async () => {
      const task = await loadTask({ task: "mr", data });
      const [train, select, test] = await Promise.all(
        (["train", "select", "test"] as const).map((split) => task.load(split)),
      );
      const all = [...train!, ...select!, ...test!];
      expect([all.length, all.filter((example) => example.label === 1).length]).toEqual([10_662, 5_331]);
      expect(countOverlap(train!, [...select!, ...test!])).toBe(0);
    });

    it("the probes' features agree in train and disagree where they are told apart", async () => {
      const task = await loadTask({ task: "msgs:control_raising_length", data });
      expect([
        (await task.load("train")).length,
        (await loadMsgsPart("control_raising_length", "inoculating", data, {})).length,
      ]).toEqual([452, 452]);
      const parts = await Promise.all(
        (["in-domain", "disambiguating", "control"] as const).map((part) =>
          loadMsgsPart("control_raising_length", part, data, {}),
        ),
      );
      expect(parts.reduce((sum, part) => sum + part.length, 0)).toBe(1_368);
      const long = (examples: { texts: readonly string[] }[]) =>
        examples.map((example) => (example.texts[0]!.split(" ").length > 14 ? 1 : 0));
      expect(long(parts[0]!)).toEqual(parts[0]!.map((example) => example.label));
      expect(long(parts[1]!)).toEqual(parts[1]!.map((example) => 1 - example.label));
    });
  },
);
