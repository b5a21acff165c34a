import { basename, dirname } from "node:path";
import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { exists, readJson } from "../../base/files.js";
import { describeDifference, findDifference, type VerifiedClass } from "../../base/verification.js";
import { type JournalSummary, summarizeAttacks, summarizeJournal } from "../../evaluation/attack-summary.js";
import { getAttackReportPath, getJournalPath, readAllControls, readAttackReport } from "../../runs/attack-folder.js";

export const summaryClass: VerifiedClass = { count: 1, what: "summary recomputed", isVerified: true };

/**
 * Compares the summary that a command wrote beside a journal with the one of its lines. Returns
 * false if there is no such file. `ignored` keys do not come from the lines.
 */
export async function checkSummary(path: string, computed: object, ignored: readonly string[]): Promise<boolean> {
  if (!(await exists(path))) return false;
  const found = (await readJson(path, "the summary of the journal", { kind: "settings" })) as object;
  const values = computed as Readonly<Record<string, unknown>>;
  const recorded = Object.fromEntries(Object.entries(found).filter(([key]) => !ignored.includes(key)));
  // Earlier versions wrote fewer keys.
  const expected = Object.fromEntries(Object.keys(recorded).map((key) => [key, values[key]]));
  const difference = findDifference(recorded, [expected]);
  if (!difference) return true;
  const what = describeDifference(difference, "its journal", "the summary");
  throw new UserError(`${path}: ${what}. Remove the file, or run the command that wrote it again.`);
}

/** The keys of a report that are no numbers: the request, and warnings that need the model or the data. */
const descriptions = ["format", "task", "split", "labels", "coverage", "sanity", "request"];

/** Numbers of earlier versions, which nothing reads. */
const writtenSchema = z.object({
  attacks: z.record(z.string(), z.object({ validity: z.unknown().optional(), density: z.unknown().optional() })),
});

export async function checkAttackReport(journal: string): Promise<boolean> {
  const folder = dirname(journal);
  const report = await readAttackReport(folder);
  const names = Object.keys(report?.attacks ?? {});
  if (!report || !names.includes(basename(journal, ".jsonl"))) return false;
  const journals = new Map<string, JournalSummary>();
  for (const name of names) {
    const path = getJournalPath(folder, name);
    // The numbers of all attacks together need all journals.
    if (!(await exists(path))) return false;
    journals.set(name, await summarizeJournal(path));
  }
  const summary = summarizeAttacks(journals, await readAllControls(folder, names));
  const path = getAttackReportPath(folder);
  const written = writtenSchema.parse(await readJson(path, "the attack report"));
  for (const [name, former] of Object.entries(written.attacks)) Object.assign(summary.attacks[name]!, former);
  return checkSummary(path, summary, descriptions);
}
