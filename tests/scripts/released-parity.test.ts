import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../temporary.js";

// What the authors' code computed (docs/explanation/fidelity.md).
const frozen = resolve("tests/fixtures/released");

function compare(...words: string[]) {
  const run = spawnSync(process.execPath, ["tools/parity/released/compare.mjs", ...words], { encoding: "utf8" });
  const rows = run.stdout.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| part "));
  return { ...run, rows: rows.map((line) => line.split("|").map((cell) => cell.trim())) };
}

describe("tools/parity/released", () => {
  test("Temper computes what the authors' code computed, and the table of docs/explanation/fidelity.md has it", () => {
    const { rows, status, stderr } = compare();
    expect(rows.filter((cells) => cells[4] !== "equal")).toEqual([]);
    expect(status, stderr).toBe(0);
    const [, table = ""] = readFileSync("docs/explanation/fidelity.md", "utf8").split("| part | largest value |");
    const documented = table.split("\n\n")[0]!.split("\n").slice(2);
    expect(rows.map(([, name, value]) => [name, value])).toEqual(
      documented.map((line) => line.split("|").map((cell) => cell.trim())).map(([, name, value]) => [name, value]),
    );
  });

  test("other numbers of the authors' code are reported", () => {
    const folder = temporaryFolder();
    const released = JSON.parse(gunzipSync(readFileSync(join(frozen, "r-drop.json.gz"))).toString());
    released.fairseq.loss.values[0] *= 1.001;
    writeFileSync(join(folder, "r-drop.json.gz"), gzipSync(JSON.stringify(released)));
    const { rows, status } = compare(folder, "r-drop");
    expect(rows.filter((cells) => cells[4] !== "equal").map(([, name]) => name)).toEqual(["R-Drop: fairseq's loss"]);
    expect(status).toBe(1);
  });
});
