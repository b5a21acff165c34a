import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { parseJournalHeader } from "../attacks/journal.js";
import { getTimingPath } from "../attacks/run-attack.js";
import { readLineEntries } from "../base/checked-lines.js";
import { UserError } from "../base/errors.js";
import { exists, readFolder } from "../base/files.js";
import { lockFolder } from "../base/lock.js";
import { readJsonIfExists, writeJson } from "../base/read-json.js";
import { type ControlKind, type Controls, controlKinds } from "../evaluation/attack-checks.js";
import {
  type AttackSuiteSummary,
  attackSuiteSummarySchema,
  hasSameExamples,
  type JournalSummary,
  summarizeAttacks,
  summarizeJournal,
} from "../evaluation/attack-summary.js";
import {
  runSanityChecks,
  type SanityFacts,
  type SanityWarning,
  sanityWarningSchema,
} from "../evaluation/sanity-checks.js";

const files = { report: "report.json", lock: "attack.lock", shards: "shards", checks: "checks" } as const;
const journalSuffix = ".jsonl";
export const checksFolder = files.checks;
const otherFiles: readonly string[] = [files.lock, files.shards, files.checks];

/** The groups that requests of earlier versions had: `numExamples` was a key of `sample`. */
const formerGroups = ["sample", "constraints", "resources", "outputs", "guard", "runtime"];

/** A recorded request with every key in one level. */
export function flattenFormerGroups(request: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { path, ...columns } = (request.data ?? {}) as Readonly<Record<string, unknown>>;
  const groups = formerGroups.map((name) => request[name]);
  const rest = Object.entries(request).filter(([key]) => !formerGroups.includes(key));
  return Object.assign(Object.fromEntries(rest), path !== undefined && { ...columns, data: path }, ...groups);
}

/**
 * report.json: what attacks did to a model, what looks odd, and the request that asked for them.
 */
export const attackReportSchema = attackSuiteSummarySchema.extend({
  format: z.literal(3),
  task: z.string(),
  labels: z.array(z.string()).default([]),
  split: z.string(),
  /** The number of texts of the split that the language-model constraint covers; null without one. */
  coverage: z.object({ covered: z.number(), total: z.number() }).nullable().default(null),
  sanity: z.array(sanityWarningSchema),
  request: z.record(z.string(), z.unknown()).transform(flattenFormerGroups),
});

/**
 * The effect of attacks on a model, and the numbers that look odd.
 *
 *     const { clean, attacks, worstCase }: AttackReport = await run.attack(["pwws", "genetic"]);
 */
export type AttackReport = z.output<typeof attackReportSchema>;

export interface AttackFolder {
  readonly folder: string;
  /** The journals that have at least one result, by attack. */
  readonly journals: ReadonlyMap<string, JournalSummary>;
  /** All attacks together; null if there are none or they saw different examples. */
  readonly summary: AttackSuiteSummary | null;
  /** The report of the last `attack` call; null if there is none. */
  readonly report: AttackReport | null;
}

/** Returns true if an attack writes files of this name into its folder. */
export function isAttackFile(name: string): boolean {
  return name.endsWith(journalSuffix) || name.endsWith(".json") || otherFiles.includes(name);
}

export function getJournalPath(folder: string, attack: string): string {
  return join(folder, `${attack}${journalSuffix}`);
}

/** The folder of an attack's shards, or of all shards. It is removed when they are merged. */
export function getShardFolder(folder: string, attack = ""): string {
  return join(folder, files.shards, attack);
}

export function getControlPath(folder: string, attack: string, kind: ControlKind): string {
  return join(getControlFolder(folder), `${attack}.${kind}${journalSuffix}`);
}

export function getControlFolder(folder: string): string {
  return join(folder, files.checks);
}

/** Reads the attacks that check an attack. Those that are not finished are left out. */
async function readControls(folder: string, attack: string): Promise<Controls> {
  const found: { -readonly [Kind in keyof Controls]: Controls[Kind] } = {};
  for (const kind of controlKinds) {
    const path = getControlPath(folder, attack, kind);
    if (!(await exists(path)) || !(await hasResults(path))) continue;
    const { finished, results } = await summarizeJournal(path);
    if (finished) found[kind] = { results };
  }
  return found;
}

/** Removes an attack's journal, so that the attack starts over. */
export async function removeJournal(folder: string, attack: string): Promise<void> {
  const path = getJournalPath(folder, attack);
  for (const file of [path, getTimingPath(path)]) await rm(file, { force: true });
  await removeControls(folder, attack);
}

/** Removes the attacks that checked an attack, so that they start over. */
export async function removeControls(folder: string, attack: string): Promise<void> {
  for (const kind of controlKinds) {
    const path = getControlPath(folder, attack, kind);
    for (const file of [path, getTimingPath(path)]) await rm(file, { force: true });
  }
}

export async function findJournals(folder: string): Promise<string[]> {
  if (!(await exists(folder))) return [];
  const names = (await readFolder(folder)).map(({ name }) => name);
  const found: string[] = [];
  for (const name of names.sort())
    if (name.endsWith(journalSuffix) && (await isJournal(join(folder, name))))
      found.push(basename(name, journalSuffix));
  return found;
}

export async function readAttackFolder(folder: string): Promise<AttackFolder> {
  const journals = new Map<string, JournalSummary>();
  for (const attack of await findJournals(folder)) {
    const path = getJournalPath(folder, attack);
    if (await hasResults(path)) journals.set(attack, await summarizeJournal(path));
  }
  const all = [...journals.values()];
  const isComparable = all.length > 0 && all.every((journal) => hasSameExamples(journal, all[0]!));
  return {
    folder,
    journals,
    summary: isComparable ? summarizeAttacks(journals, await readAllControls(folder, journals.keys())) : null,
    report: await readAttackReport(folder),
  };
}

export async function readAllControls(folder: string, attacks: Iterable<string>): Promise<Map<string, Controls>> {
  const found = new Map<string, Controls>();
  for (const attack of attacks) found.set(attack, await readControls(folder, attack));
  return found;
}

/**
 * What is odd in all journals together, and what the last `attack` call found odd, which knows more facts. Nobody can hide
 * the former by editing its report.
 */
export function listAttackWarnings({ summary, report }: AttackFolder, facts: SanityFacts): SanityWarning[] {
  const all = [...(summary ? runSanityChecks(summary, facts) : []), ...(report?.sanity ?? [])];
  return [...new Map(all.map((warning) => [warning.message, warning])).values()];
}

export function getAttackReportPath(folder: string): string {
  return join(folder, files.report);
}

export function readAttackReport(folder: string): Promise<AttackReport | null> {
  return readJsonIfExists(getAttackReportPath(folder), attackReportSchema, "the attack report");
}

export async function writeAttackReport(folder: string, report: AttackReport): Promise<void> {
  await writeJson(getAttackReportPath(folder), report);
}

export function lockAttackFolder(folder: string): () => void {
  return lockFolder(folder, files.lock, "create the folder of the journals");
}

async function isJournal(path: string): Promise<boolean> {
  try {
    for await (const entry of readLineEntries(path)) return parseJournalHeader(entry, path) !== null;
    return false;
  } catch (error) {
    if (error instanceof UserError) return false;
    throw error;
  }
}

async function hasResults(path: string): Promise<boolean> {
  for await (const { line, value } of readLineEntries(path)) if (line === 2) return value !== undefined;
  return false;
}
