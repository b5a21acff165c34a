import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildIfStale } from "../cli/built.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const out = join(folder, "demo");

beforeAll(buildIfStale, 120_000);

/** The demo with a model of a few hundred weights, which knows few words: it learns nothing, but goes every step of the way. */
async function demo(...args: readonly string[]) {
  const model = await writeTinyBert(join(folder, "tiny"), [
    "free",
    "money",
    "new",
    "get",
    "mail",
    "list",
    "work",
    "time",
    "people",
    "make",
  ]);
  const small = [`model=${model}`, "limit=32", "maxLength=12", "selectionLimit=8", "train.epochs=1"].flatMap(
    (assignment) => ["--set", assignment],
  );
  return spawnSync(process.execPath, ["scripts/demo.mjs", "--out", out, "--mails", "6", ...small, ...args], {
    encoding: "utf8",
  });
}

test("the demo trains, attacks, compares and reports; again, it only shows what is done", {
  timeout: 180_000,
}, async () => {
  const first = await demo();
  expect(first.stderr).not.toContain("temper: ");
  expect(first.status).toBe(0);
  for (const number of [1, 2, 3, 4, 5, 6]) expect(first.stdout).toContain(`\n${number}/6 `);
  expect(first.stdout).toMatch(/^pwws: /m);
  expect(existsSync(join(out, "report.html"))).toBe(true);
  const again = await demo();
  expect(again.status).toBe(0);
  const withoutTime = (text: string): string => text.replace(/Done in \d+:\d+/, "");
  expect(withoutTime(again.stdout)).toBe(withoutTime(first.stdout));
  const other = await demo("--seed", "1");
  expect(other.status).toBe(2);
  expect(other.stderr).toContain("make demo FRESH=1");
});
