import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { formatTable } from "../../src/cli/output.js";
import { memoryStream } from "./invoke.js";

const rows = [
  ["method", "ascc:beta=4,innerSteps=2,innerLearningRate=3", "trains against the worst mixture of synonyms", 1],
  ["epochs", "10", "252 training texts give 80 steps; a small model needs about 75", 2],
];
const options = { head: ["choice", "value", "why", "number"], numeric: [3] };

test.each([60, 72, 100])("a table fits a terminal of %i columns and loses no word", (columns) => {
  const lines = stripVTControlCharacters(formatTable(memoryStream({ columns }), rows, options)).split("\n");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
  // Without the gaps of the lines, each column reads as before.
  const words = lines.join(" ").split(/[\s,]+/);
  for (const cell of rows.flat()) for (const word of String(cell).split(/[\s,]+/)) expect(words).toContain(word);
});

test("a table of too many columns for a terminal is a list per row, which loses nothing either", () => {
  const head = Array.from({ length: 12 }, (_, i) => `column${i}`);
  const row = head.map((name) => name.replace("column", "long-value-"));
  const lines = formatTable(memoryStream({ columns: 80 }), [row, row], { head }).split("\n");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  const list = lines.slice(1, lines.length / 2).map((line) => line.trim());
  expect(lines[0]).toBe("long-value-0");
  expect(list.join(" ")).toBe(
    head
      .slice(1)
      .map((name, i) => `${name} ${row[i + 1]}`)
      .join(", "),
  );
});

test("a table in a log or a pipe has one line per row", () => {
  const lines = formatTable(memoryStream(), rows, options).split("\n");
  expect(lines).toHaveLength(3);
  expect(lines[2]).toMatch(/^epochs {2}10 +252 training texts give 80 steps; a small model needs about 75 +2$/);
});

test("a table that fits is not changed by the width", () => {
  expect(formatTable(memoryStream({ columns: 300 }), rows)).toBe(formatTable(memoryStream(), rows));
});
