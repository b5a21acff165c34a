import { extname } from "node:path";
import { UserError } from "../base/errors.js";
import { readInputs, type TextInput } from "../text/read-inputs.js";
import { chooseTextColumns } from "./infer-columns.js";
import { readTable } from "./read-table.js";

const tables: readonly string[] = [".csv", ".tsv", ".parquet"];

/** Reads texts to classify with their other columns: a table, JSON lines, or a text per line. */
export async function* readTexts(
  file: string,
  textColumn: readonly string[],
  input?: AsyncIterable<Uint8Array>,
): AsyncGenerator<TextInput> {
  if (file === "-" && textColumn.length > 0)
    throw new UserError("--text-column: expected a file with columns, received the standard input.");
  if (!tables.includes(extname(file).toLowerCase()) && textColumn.length === 0) {
    yield* readInputs(file, input);
    return;
  }
  const table = await readTable(file);
  const { name: columns } = chooseTextColumns(table, textColumn);
  for (const { at, values, problem } of table.rows) {
    if (problem !== undefined) throw new UserError(`${file}:${at}: ${problem}`);
    const texts = columns.map((column) => String(values[column] ?? ""));
    yield { line: at, texts, row: values };
  }
}
