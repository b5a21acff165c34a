import { join } from "node:path";
import { writeFileAtomic } from "../files.js";
import { makeReport } from "../report/index.js";
import { chosenFolders, collect } from "../sweeps/collect.js";
import { toCsv, toJson, toMarkdown } from "../sweeps/draw.js";
import { type Plan, sweepFiles } from "../sweeps/plan.js";
import { readPublished } from "../sweeps/published.js";
import { type Io, write } from "./io.js";
import { printJson } from "./output.js";

/** The end of a sweep: its table in three formats, on the disk and printed, and its report. */
export async function finishSweep(
  io: Io,
  out: string,
  plan: Plan,
  { json, quiet }: { json?: true | undefined; quiet?: true | undefined },
): Promise<void> {
  const table = await collect(out, plan);
  const published = table.paper === null ? null : await readPublished(table.paper);
  const at = (kind: string): string => join(out, `${sweepFiles.table}.${kind}`);
  await writeFileAtomic(at("md"), toMarkdown(table, published));
  await writeFileAtomic(at("csv"), toCsv(table, published));
  await writeFileAtomic(at("json"), `${JSON.stringify(toJson(table, published), null, 2)}\n`);
  await (json ? printJson(io, toJson(table, published)) : write(io.stdout, toMarkdown(table)));
  const report = await writeReport(out, plan);
  if (!quiet) io.stderr.write(`${at("md")}, .csv and .json hold the table${report ? `, ${report} the report` : ""}\n`);
}

/** The report of the runs that the table shows; null where there are none yet. */
async function writeReport(out: string, plan: Plan): Promise<string | null> {
  const folders = await chosenFolders(out, plan);
  if (folders.length === 0) return null;
  const path = join(out, sweepFiles.report);
  await writeFileAtomic(path, (await makeReport(folders)).html);
  return path;
}
