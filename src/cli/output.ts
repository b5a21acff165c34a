import { isAbsolute, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import Table from "cli-table3";
import type { OptionDescription } from "../base/describe-options.js";
import { formatCommandLine } from "../base/shell.js";
import { formatDegeneracy } from "../evaluation/degenerate.js";
import { getColors, type Io, type OutputStream, write } from "./io.js";

export async function printJson(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${escapeControls(JSON.stringify(value, null, 2))}\n`);
}

export async function printJsonLine(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${escapeControls(JSON.stringify(value))}\n`);
}

/** JSON.stringify escapes all control characters but these. */
function escapeControls(json: string): string {
  return json.replace(/[\x7f-\x9f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

export interface TableOptions {
  readonly head?: readonly string[];
  readonly numeric?: readonly number[];
}

const borders = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"]
  .concat(["left", "left-mid", "mid", "mid-mid", "right", "right-mid"])
  .map((name) => [name, ""]);

/**
 * Formats a table without borders, which is easy to copy and to read in a log. In a terminal, long
 * texts are wrapped so that a row fits its width. If it has too many columns, rows become lists.
 */
export function formatTable(
  out: OutputStream,
  rows: readonly (readonly (string | number)[])[],
  { head, numeric = [] }: TableOptions = {},
): string {
  const { bold } = getColors(out);
  const width = Math.max(head?.length ?? 0, ...rows.map((row) => row.length));
  const cells = rows.map((row) => row.map(String));
  const available = getWidth(out);
  const limit = findMaxWidth(head ? [head, ...cells] : cells, width, available);
  if (limit === null) return cells.map((row) => formatRow(row, head ?? [], available)).join("\n");
  const table = new Table({
    chars: { ...Object.fromEntries(borders), middle: gap },
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [] },
    colAligns: Array.from({ length: width }, (_, column) => (numeric.includes(column) ? "right" : "left")),
    ...(head && { head: head.map((name) => wrapText(name, limit).split("\n").map(bold).join("\n")) }),
  });
  for (const row of cells) table.push(row.map((cell) => wrapText(cell, limit)));
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}

const gap = "  ";
/** Narrower columns are harder to read than a list. */
const minColumnWidth = 10;

const measureText = (text: string): number =>
  Math.max(
    ...stripVTControlCharacters(text)
      .split("\n")
      .map((line) => line.length),
  );

/** The width that the widest columns may have, so that a row fits; null if it cannot. */
function findMaxWidth(rows: readonly (readonly string[])[], columns: number, available: number): number | null {
  const measureRow = (limit: number): number =>
    Array.from({ length: columns }, (_, column) =>
      Math.max(...rows.map((row) => measureText(wrapText(row[column] ?? "", limit)))),
    ).reduce((sum, width) => sum + width, gap.length * (columns - 1));
  let limit = Math.max(...rows.flat().map(measureText));
  if (measureRow(limit) <= available) return limit;
  limit = Math.min(limit, available);
  while (limit >= minColumnWidth && measureRow(limit) > available) limit--;
  return limit >= minColumnWidth ? limit : null;
}

/** A row as a list below its first cell. */
function formatRow([first = "", ...cells]: readonly string[], head: readonly string[], available: number): string {
  const facts = cells.flatMap((cell, i) => (cell === "" ? [] : [`${head[i + 1] ?? ""} ${cell}`.trim()]));
  const list = wrapText(facts.join(", "), available - gap.length).split("\n");
  return [first, ...list.map((line) => `${gap}${line}`)].join("\n");
}

/** In a terminal, sentences break between words. */
export function formatText(out: OutputStream, text: string): string {
  return wrapText(text, getWidth(out));
}

const getWidth = (out: OutputStream): number => (out.isTTY === true && out.columns) || Number.POSITIVE_INFINITY;

/** Breaks lines after spaces, commas and slashes, but not inside of a number. */
function wrapText(text: string, width: number): string {
  if (measureText(text) <= width) return text;
  const lines = [""];
  for (const part of text.split(/(?<=[\s/]|,(?!\d))/)) {
    if (lines.at(-1) !== "" && measureText((lines.at(-1) + part).trimEnd()) > width) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines.map((line) => line.trimEnd()).join("\n");
}

export function formatOptions(io: Io, options: readonly OptionDescription[]): string {
  const rows = options.map(({ name, values, default: standard, whenNull, description }) => [
    name,
    values,
    standard === null ? "–" : String(standard),
    whenNull === null ? description : `${description}; null: ${whenNull}`,
  ]);
  return formatTable(io.stdout, rows, { head: ["option", "values", "default", ""] });
}

/** A path as people type it: relative if it is inside the current folder. */
export function formatPath(path: string): string {
  const short = relative("", path);
  return short === "" || short.startsWith("..") || isAbsolute(short) ? path : short;
}

/** The line that tells people how to go on. */
export function formatNext(words: readonly string[]): string {
  return `\nNext: ${formatCommandLine(["temper", ...words])}\n`;
}

/**
 * The line that marks the result of a degenerate model; nothing for a sound one. It is a part of the
 * result, so --quiet does not hide it.
 */
export function formatDegeneracyLine(io: Io, degeneracy: string | null, result: string): string {
  return degeneracy === null ? "" : `${getColors(io.stdout).yellow("!")} ${formatDegeneracy(degeneracy, result)}\n`;
}
