import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { readJournalEntries } from "../attacks/journal.js";
import { whiteBoxAttacks } from "../attacks/load-attack.js";
import {
  type AttackSuiteSummary,
  hasSameExamples,
  type JournalSummary,
  summarizeAttacks,
  summarizeJournal,
} from "../evaluation/attack-summary.js";
import { runSanityChecks } from "../evaluation/sanity-checks.js";
import { exists, readJson } from "../files.js";
import { validate } from "../validate.js";

/** The attacks on a run's model, by name. */
export interface RunAttacks {
  readonly journals: ReadonlyMap<string, JournalSummary>;
  /** All of them together; null where they did not see the same examples. */
  readonly combined: AttackSuiteSummary | null;
  readonly flags: readonly { readonly name: string; readonly message: string }[];
  /** The last command that attacked it, and the attacks it named; null where nobody wrote it down. */
  readonly lastCommand: { readonly command: string; readonly attacks: readonly string[] } | null;
}

/** What the attack verb leaves beside its journals; only what is needed here. */
const reportSchema = z.object({
  command: z.string().optional(),
  attacks: z.record(z.string(), z.unknown()),
  sanity: z.array(z.object({ name: z.string(), message: z.string() })),
});

/** Reads the attacks/ folder of a run; journals that have no result yet are left out. */
export async function readRunAttacks(folder: string, trainedTokenization: string): Promise<RunAttacks> {
  const paths = await listJournals(folder);
  const report = await readAttackReport(join(folder, "report.json"));
  const last = report?.command === undefined ? null : { command: report.command, attacks: Object.keys(report.attacks) };
  const journals = new Map<string, JournalSummary>();
  for (const [name, path] of paths) {
    if (await hasResults(path)) journals.set(name, await summarizeJournal(path));
  }
  const reads = [...journals.values()];
  const [first] = reads;
  if (!first || !reads.every((read) => hasSameExamples(read, first))) {
    return { journals, combined: null, flags: report?.sanity ?? [], lastCommand: last };
  }
  const together = summarizeAttacks(journals);
  const { tokenization } = first.header.settings;
  const whiteBox = [...journals.keys()].filter((name) => whiteBoxAttacks.has(name));
  const facts = { trainedTokenization, whiteBox, ...(typeof tokenization === "string" ? { tokenization } : {}) };
  const flags = new Map(
    [...runSanityChecks(together, facts), ...(report?.sanity ?? [])].map((flag) => [flag.message, flag]),
  );
  return { journals, combined: together, flags: [...flags.values()], lastCommand: last };
}

/** Journals by the attack's name. */
async function listJournals(folder: string): Promise<ReadonlyMap<string, string>> {
  const names = (await exists(folder)) ? await readdir(folder) : [];
  return new Map(
    names
      .filter((name) => name.endsWith(".jsonl"))
      .sort()
      .map((name) => [name.slice(0, -".jsonl".length), join(folder, name)]),
  );
}

async function readAttackReport(path: string): Promise<z.output<typeof reportSchema> | null> {
  return (await exists(path)) ? validate(reportSchema, await readJson(path, "the attacks' report"), path) : null;
}

async function hasResults(path: string): Promise<boolean> {
  for await (const { line, value } of readJournalEntries(path)) if (line === 2) return value !== undefined;
  return false;
}
