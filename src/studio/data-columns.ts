import { stat } from "node:fs/promises";
import { extname } from "node:path";
import { UserError } from "../base/errors.js";
import { readTable, tableExtensions } from "../tasks/read-table.js";
import type { DataColumns } from "./api.js";

/** A larger file would make the form wait. Its columns can be typed. */
const maxBytes = 64e6;

/** The columns of a file of data. */
export async function readColumns(path: string): Promise<DataColumns> {
  const found = await stat(path).catch(() => null);
  const isTable = tableExtensions.includes(extname(path).toLowerCase());
  if (!isTable || !found?.isFile() || found.size > maxBytes) return { columns: [], problem: null };
  try {
    return { columns: (await readTable(path)).columns, problem: null };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { columns: [], problem: error.message };
  }
}
