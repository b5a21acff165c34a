import Table from "cli-table3";
import { getColors, type Io, type OutputStream, write } from "./io.js";

/** A value as JSON on stdout, indented: the whole answer of a verb under --json. */
export async function printJson(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${JSON.stringify(value, null, 2)}\n`);
}

/** One value as one line of JSON: for answers that stream. */
export async function printJsonLine(io: Io, value: unknown): Promise<void> {
  await write(io.stdout, `${JSON.stringify(value)}\n`);
}

export interface TableOptions {
  readonly head?: readonly string[];
  /** Columns of numbers, which stand flush right. */
  readonly numeric?: readonly number[];
}

/** A table without frames: it copies well, and reads well in a log. */
export function formatTable(
  out: OutputStream,
  rows: readonly (readonly (string | number)[])[],
  options: TableOptions = {},
): string {
  const colors = getColors(out);
  const width = Math.max(options.head?.length ?? 0, ...rows.map((row) => row.length));
  const bare = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"]
    .concat(["left", "left-mid", "mid", "mid-mid", "right", "right-mid"])
    .map((name) => [name, ""]);
  const made = new Table({
    chars: { ...Object.fromEntries(bare), middle: "  " },
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [] },
    colAligns: Array.from({ length: width }, (_, column) => (options.numeric?.includes(column) ? "right" : "left")),
    ...(options.head ? { head: options.head.map((name) => colors.bold(name)) } : {}),
  });
  for (const row of rows) made.push(row.map(String));
  return made
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}
