import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { isLong } from "../long.js";
import { loadSpamTask } from "../tasks/spam-cache.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const out = join(folder, "demo");
const table = join(folder, "table.json");
writeFileSync(
  table,
  JSON.stringify({ the: ["a"], a: ["the"], to: ["for"], for: ["to"], you: ["we"], and: ["or"], of: ["in"] }),
);

// The programs of the demo read the decoded emails from the cache.
beforeAll(loadSpamTask);
afterAll(() => void vi.unstubAllEnvs());

/** Runs the demo with a model of a few hundred weights and few words. It learns nothing, but every step runs. */
async function runDemo(...args: readonly string[]) {
  const words = "free money new get mail list work time people make".split(" ");
  const model = await writeTinyBert(join(folder, "tiny"), words);
  const small = [`model=${model}`, "maxTrainSamples=32", "maxLength=12", "maxValidationSamples=8", "train.epochs=1"];
  // With WordNet in make test-long.
  if (!isLong) small.push(`substitutions=${table}`, "maxTestSamples=20");
  const settings = small.flatMap((assignment) => ["--set", assignment]);
  const flags = ["--out", out, "--num-examples", isLong ? "6" : "4", ...settings, ...args];
  return spawnSync(process.execPath, ["scripts/demo.mjs", ...flags], { encoding: "utf8" });
}

test("the demo trains, attacks, compares and reports", async () => {
  const first = await runDemo();
  expect(first.stderr).not.toContain("temper: ");
  expect(first.status).toBe(0);
  for (const number of [1, 2, 3, 4, 5, 6]) expect(first.stdout).toContain(`\n${number}/6 `);
  expect(first.stdout).toMatch(/^recall of spam under pwws: /m);
  expect(existsSync(join(out, "report.html"))).toBe(true);
  // It does not repeat finished steps.
  if (!isLong) return;
  const removeTime = (text: string): string => text.replace(/Done in \d+:\d+/, "");
  expect(removeTime((await runDemo()).stdout)).toBe(removeTime(first.stdout));
  const otherSeed = await runDemo("--seed", "1");
  expect(otherSeed.status).toBe(2);
  expect(otherSeed.stderr).toContain("make demo FRESH=1");
});
