import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const path = join(folder, "table.json");

/** Rows by name, each with clean accuracies and accuracies under PWWS of three seeds per column. */
function writeTable(rows: Record<string, Record<string, readonly number[]>>): void {
  const cells = (row: Record<string, readonly number[]>) =>
    Object.fromEntries(Object.entries(row).map(([key, values]) => [key, { values }]));
  const table = {
    columns: [{ id: "a" }, { id: "b" }],
    seeds: [0, 1, 2],
    rows: Object.entries(rows).map(([id, row]) => ({ id, title: id, cells: cells(row) })),
  };
  writeFileSync(path, JSON.stringify([table]));
}

function runTool(name: string, ...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const tool = join(import.meta.dirname, "../../tools", name);
  return spawnSync(process.execPath, [tool, path, ...args], { encoding: "utf8" });
}

it("compare-rows tests the mean over the columns, one number per seed, with Holm's correction", () => {
  writeTable({
    first: {
      "a/pwws": [0.5, 0.6, 0.7],
      "b/pwws": [0.2, 0.3, 0.4],
      "a/accuracy": [0.8, 0.8, 0.8],
      "b/accuracy": [0.8, 0.8, 0.8],
    },
    second: {
      "a/pwws": [0.4, 0.5, 0.5],
      "b/pwws": [0.1, 0.1, 0.1],
      "a/accuracy": [0.8, 0.8, 0.8],
      "b/accuracy": [0.8, 0.8, 0.8],
    },
  });
  const { status, stdout } = runTool("compare-rows.mjs", "--columns", "a,b", "--pairs", "first:second");
  expect(status).toBe(0);
  // The differences of the means are 0.1, 0.15 and 0.25 (t = 3.78 with two degrees of freedom).
  expect(stdout.split("\n").slice(2, 4)).toEqual([
    "| first - second | pwws | 45.0 | 28.3 | 13.3 | 20.0 | 16.7 ± 7.6 | 0.0634 | 0.127 |",
    "| first - second | accuracy | 80.0 | 80.0 | 0.0 | 0.0 | 0.0 ± 0.0 | 1.0000 | 1.000 |",
  ]);
});

it("equal-clean interpolates each seed's curve, and averages over the columns", () => {
  // Under PWWS, the first method is always 0.1 above the line 1 - clean, the second on it.
  const curve = (clean: number, gain: number) => {
    const cleans = [clean, clean + 0.01, clean - 0.01];
    const attacked = cleans.map((value, seed) => 1 - value + gain * (1 + seed / 10));
    return { "a/accuracy": cleans, "a/pwws": attacked, "b/accuracy": cleans, "b/pwws": attacked };
  };
  writeTable({ f1: curve(0.6, 0.1), f2: curve(0.8, 0.1), s1: curve(0.58, 0), s2: curve(0.7, 0), s3: curve(0.82, 0) });
  const { status, stdout } = runTool("equal-clean.mjs", "--columns", "a,b", "--first", "f1,f2", "--second", "s1,s2,s3");
  expect(status).toBe(0);
  const means = stdout.split("\n").filter((line) => line.startsWith("| mean"));
  expect(means).toHaveLength(3);
  for (const line of means) expect(line).toContain("| 11.0 ± 1.0 |");
});

it("unknown rows and missing seeds are errors", () => {
  writeTable({ first: { "a/pwws": [0.5, 0.6] }, second: { "a/pwws": [0.4, 0.5, 0.6] } });
  const compare = (pair: string) => runTool("compare-rows.mjs", "--columns", "a", "--metrics", "pwws", "--pairs", pair);
  expect(compare("second:third")).toMatchObject({
    status: 2,
    stderr: "there is no row third; the rows are first, second\n",
  });
  expect(compare("second:first")).toMatchObject({ status: 2, stderr: "first, a: expected pwws of 3 seeds, found 2\n" });
});
