import { join } from "node:path";
import { writeFileAtomic } from "../files.js";
import { createReport } from "../report/index.js";
import { collectResults, listSelectedFolders } from "../sweeps/collect-results.js";
import { type SweepPlan, sweepFiles } from "../sweeps/plan.js";
import { readPublishedTable } from "../sweeps/published-results.js";
import { toCsv, toMarkdown, toTableJson } from "../sweeps/render-table.js";
import { type Io, write } from "./io.js";
import { printJson } from "./output.js";

/** The end of a sweep: its table in three formats, on the disk and printed, and its report. */
export async function finishSweep(
  io: Io,
  out: string,
  plan: SweepPlan,
  { json, quiet }: { json?: true | undefined; quiet?: true | undefined },
): Promise<void> {
  const table = await collectResults(out, plan);
  const published = table.paper === null ? null : await readPublishedTable(table.paper);
  const at = (kind: string): string => join(out, `${sweepFiles.table}.${kind}`);
  await writeFileAtomic(at("md"), toMarkdown(table, published));
  await writeFileAtomic(at("csv"), toCsv(table, published));
  await writeFileAtomic(at("json"), `${JSON.stringify(toTableJson(table, published), null, 2)}\n`);
  await (json ? printJson(io, toTableJson(table, published)) : write(io.stdout, toMarkdown(table)));
  const report = await writeSweepReport(out, plan);
  if (!quiet) io.stderr.write(`${at("md")}, .csv and .json hold the table${report ? `, ${report} the report` : ""}\n`);
}

/** The report of the runs that the table shows; null where there are none yet. */
async function writeSweepReport(out: string, plan: SweepPlan): Promise<string | null> {
  const folders = await listSelectedFolders(out, plan);
  if (folders.length === 0) return null;
  const path = join(out, sweepFiles.report);
  await writeFileAtomic(path, (await createReport(folders)).html);
  return path;
}
