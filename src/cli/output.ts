import { isAbsolute, relative } from "node:path";
import Table from "cli-table3";
import type { OptionDescription } from "../base/describe-options.js";
import { formatCommandLine } from "../base/shell.js";
import { formatDegeneracy } from "../evaluation/degenerate.js";
import { getColors, type Io, type OutputStream, write } from "./io.js";

/** Prints a value as indented JSON: the complete output of a command with --json. */
export async function printJson(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${escapeControls(JSON.stringify(value, null, 2))}\n`);
}

/** Prints a value as one line of JSON, for commands that stream their output. */
export async function printJsonLine(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${escapeControls(JSON.stringify(value))}\n`);
}

/** JSON.stringify escapes all control characters but these. */
function escapeControls(json: string): string {
  return json.replace(/[\x7f-\x9f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

export interface TableOptions {
  readonly head?: readonly string[];
  /** Columns of numbers, which are aligned right. */
  readonly numeric?: readonly number[];
}

const borders = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"]
  .concat(["left", "left-mid", "mid", "mid-mid", "right", "right-mid"])
  .map((name) => [name, ""]);

/** Formats a table without borders, which is easy to copy and to read in a log. */
export function formatTable(
  out: OutputStream,
  rows: readonly (readonly (string | number)[])[],
  { head, numeric = [] }: TableOptions = {},
): string {
  const colors = getColors(out);
  const width = Math.max(head?.length ?? 0, ...rows.map((row) => row.length));
  const table = new Table({
    chars: { ...Object.fromEntries(borders), middle: "  " },
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [] },
    colAligns: Array.from({ length: width }, (_, column) => (numeric.includes(column) ? "right" : "left")),
    ...(head && { head: head.map((name) => colors.bold(name)) }),
  });
  for (const row of rows) table.push(row.map(String));
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}

/** The options of a method or an attack. */
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
