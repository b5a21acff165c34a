import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const table = join(folder, "table.json");
const data = join(folder, "test.jsonl");
mkdirSync(folder, { recursive: true });
writeFileSync(table, JSON.stringify({ good: ["fine", "nice", "great"], film: ["movie"] }));
const rows = Array.from({ length: 4 }, (_, i) =>
  JSON.stringify({ text: `a good film ${i}`, label: i % 2 ? "pos" : "neg" }),
);
writeFileSync(data, rows.join("\n"));
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

/** Always right, except for texts with "nice". */
const predict = (texts: readonly (string | readonly string[])[]): number[][] =>
  texts.map((text) => {
    const isPositive = Number(/\d/.exec(String(text))?.[0] ?? 0) % 2 === 1;
    const label = isPositive !== String(text).includes("nice");
    return label ? [0.1, 0.9] : [0.9, 0.1];
  });

const request = (out: string) => ({
  model: predict,
  data: { path: data, textColumn: ["text"], labelColumn: "label" },
  substitutions: table,
  density: true,
  out: join(folder, out),
});

test("the density of a black box is the fraction of random texts that fool it", async () => {
  const report = await attack({ ...request("found"), attacks: ["random:samples=400"] });
  const { samples, flipped, fraction, interval, unflipped } = report.attacks.random!.density!;
  expect({ samples, unflipped }).toEqual({ samples: 1600, unflipped: 0 });
  expect(fraction).toBe(flipped / samples);
  // "nice" is one of four words in its place.
  expect(interval.low).toBeLessThan(0.25);
  expect(interval.high).toBeGreaterThan(0.25);
  expect(interval.high - interval.low).toBeLessThan(0.06);
});

test("a density without random texts, or with a budget, is rejected", async () => {
  await expect(attack({ ...request("bad"), attacks: ["pwws"] })).rejects.toThrow("Add --attack random:samples=3000");
  await expect(attack({ ...request("bad"), attacks: ["random"], queryBudget: 9 })).rejects.toThrow(
    "Leave out --query-budget",
  );
});
