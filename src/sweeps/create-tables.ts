import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { collectResults } from "./collect-results.js";
import { readSweepPlan } from "./plan.js";
import { type PublishedTable, readPublishedTable } from "./render-table.js";
import type { ResultsTable } from "./table.js";

const tableRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).describe("folders of sweeps"),
  paper: z.boolean().default(false).describe("add the published numbers, with their confidence intervals"),
});

/**
 * Reads the table of each sweep.
 *
 *     const [first] = await table({ folders: ["runs/rose-table-1"] });
 */
export async function table(
  request: z.input<typeof tableRequestSchema>,
): Promise<{ readonly table: ResultsTable; readonly published: PublishedTable | null }[]> {
  const { folders, paper } = validate(tableRequestSchema, request, "table");
  return Promise.all(
    folders.map(async (folder) => {
      const plan = await readSweepPlan(folder);
      if (!plan)
        throw new UserError(`${folder}: expected the folder of a sweep. temper compare ${folder} compares runs.`);
      const table = await collectResults(folder, plan);
      return { table, published: paper ? await readPublishedNumbers(table) : null };
    }),
  );
}

function readPublishedNumbers({ publishedTable, title }: ResultsTable): Promise<PublishedTable> {
  if (publishedTable !== null) return readPublishedTable(publishedTable);
  throw new UserError(`--paper: ${title} has no published table. Set publishedTable in the sweep file.`);
}
