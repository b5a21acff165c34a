import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { collectResults } from "./collect-results.js";
import { readSweepPlan } from "./plan.js";
import { type PublishedTable, readPublishedTable } from "./published-results.js";
import { createRunsTable } from "./runs-table.js";
import type { ResultsTable } from "./table.js";

const tableRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).describe("sweep folders, run folders, or folders of runs"),
  paper: z.boolean().default(false).describe("add the published numbers, with their confidence intervals"),
});
export type TableRequest = z.input<typeof tableRequestSchema>;

/** A table, and the published one if it was asked for. */
export interface CreatedTable {
  readonly table: ResultsTable;
  readonly published: PublishedTable | null;
}

/**
 * Reads one table per sweep, and one of all other runs.
 *
 *     const [{ table }] = await createTables({ folders: ["runs/rose-table-1"] });
 */
export async function createTables(request: TableRequest): Promise<CreatedTable[]> {
  const { folders, paper } = validate(tableRequestSchema, request, "table");
  return Promise.all(
    (await readTables(folders)).map(async (table) => ({
      table,
      published: paper ? await readPublishedNumbers(table) : null,
    })),
  );
}

async function readTables(folders: readonly string[]): Promise<ResultsTable[]> {
  const tables: ResultsTable[] = [];
  const others: string[] = [];
  for (const folder of folders) {
    const plan = await readSweepPlan(folder);
    if (plan) tables.push(await collectResults(folder, plan));
    else others.push(folder);
  }
  return others.length > 0 ? [...tables, await createRunsTable(others)] : tables;
}

function readPublishedNumbers({ publishedTable, title }: ResultsTable): Promise<PublishedTable> {
  if (publishedTable !== null) return readPublishedTable(publishedTable);
  throw new UserError(`--paper: ${title} has no published table. Set publishedTable in the sweep file.`);
}
