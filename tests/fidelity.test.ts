import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const page = readFileSync("docs/fidelity.md", "utf8");

/** `path` `name` `name` …: the names belong to the file before them. */
function references(): { file: string; names: string[] }[] {
  const found: { file: string; names: string[] }[] = [];
  for (const row of page.split("\n").filter((line) => line.startsWith("|"))) {
    const cell = row.split(/(?<!\\)\|/).at(-2) ?? "";
    const inRow: typeof found = [];
    for (const [, quoted] of cell.matchAll(/`([^`]+)`/g)) {
      if (/^(src|tests)\/.+\.ts$/.test(quoted!)) inRow.push({ file: quoted!, names: [] });
      else if (/^\w+$/.test(quoted!)) inRow.at(-1)?.names.push(quoted!);
    }
    found.push(...inRow);
  }
  return found;
}

test("every equation leads to a file, and to a name in it", () => {
  const all = references();
  expect(all.length).toBeGreaterThan(15);
  for (const { file, names } of all) {
    expect(existsSync(file), file).toBe(true);
    const text = readFileSync(file, "utf8");
    for (const name of names)
      expect(text, `${file}: ${name}`).toMatch(new RegExp(`\\b(function|class|const) ${name}\\b|\\b${name}\\(`));
  }
});
