import { readdir, stat } from "node:fs/promises";
import { extname, join } from "node:path";
import { UserError } from "../base/errors.js";
import { html } from "../report/html.js";
import { readTable, tableExtensions } from "../tasks/read-table.js";
import type { DataPreview } from "./api.js";

const maxRows = 3;
const maxCharacters = 80;
/** A larger file would make the form wait. Its columns can be typed. */
const maxBytes = 64e6;

/** The columns and the first rows of a file of data, or of the first file of a folder. */
export async function previewData(path: string): Promise<DataPreview> {
  const empty = { columns: [], table: "", problem: null };
  try {
    const file = await findTable(path);
    if (file === null) return empty;
    const { columns, rows } = await readTable(file);
    const shorten = (value: unknown): string => String(value ?? "").slice(0, maxCharacters);
    const first = rows.slice(0, maxRows).map(({ values }) => columns.map((column) => shorten(values[column])));
    const cells = first.map((row) => html`<tr>${row.map((value) => html`<td>${value}</td>`)}</tr>`);
    const table = html`<div class="scroll" role="region" aria-label="First rows of the data" tabindex="0"><table>
<thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead><tbody>${cells}</tbody></table></div>`;
    return { ...empty, columns, table: table.text };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { ...empty, problem: error.message };
  }
}

async function findTable(path: string): Promise<string | null> {
  const isTable = (name: string): boolean => tableExtensions.includes(extname(name).toLowerCase());
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) {
    const names = (await readdir(path)).filter(isTable).sort();
    return names.length > 0 ? findTable(join(path, names.find((name) => name.startsWith("train")) ?? names[0]!)) : null;
  }
  return found?.isFile() && isTable(path) && found.size <= maxBytes ? path : null;
}
