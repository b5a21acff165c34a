import { z } from "zod";
import { type LineEntry, type LineFormat, LineWriter, parseHeader, readCheckedLines } from "../base/checked-lines.js";
import { type AttackResult, attackResultSchema } from "./result.js";

/** The first line of a journal, after its format and version. */
export const journalHeaderSchema = z.object({
  attack: z.string(),
  options: z.unknown(),
  /** SHA-256 of model, tokenizer, substitutions, …, by name. */
  hashes: z.record(z.string(), z.string()),
  /** Everything else that determines the results (task, constraints, budget, …). */
  settings: z.record(z.string(), z.unknown()),
  seed: z.union([z.number(), z.string()]),
  examples: z.int().min(0),
});

/** Everything that determines the results of a journal. A resumed run must have the same header. */
export type JournalHeader = z.output<typeof journalHeaderSchema>;

const journalFormat: LineFormat<JournalHeader> = {
  format: "temper attack journal",
  version: 3,
  header: journalHeaderSchema,
  parts: ["settings", "hashes"],
};

export function parseJournalHeader(entry: LineEntry, path: string): JournalHeader {
  return parseHeader(entry, path, journalFormat);
}

/**
 * Reads the attack log (journal) of an attack: one result per example, in order. Every line is
 * checked against its checksum and its schema. An incomplete or changed line raises a UserError.
 *
 * @example
 * for await (const { result } of readJournal("runs/reviews/attacks/pwws.jsonl"))
 *   if (result.outcome === "success") console.log(result.id, result.edits);
 */
export async function* readJournal(
  path: string,
): AsyncGenerator<{ readonly header: JournalHeader; readonly line: number; readonly result: AttackResult }> {
  const lines = readCheckedLines(path, journalFormat, attackResultSchema, "temper attack … --resume");
  for await (const { header, line, value } of lines) yield { header, line, result: value };
}

/**
 * Starts a journal, or with `resume` continues or extends one: `createHeader` returns the header of
 * fewer examples.
 */
export function openJournal(
  path: string,
  header: JournalHeader,
  resume = false,
  createHeader?: (examples: number) => JournalHeader,
): Promise<LineWriter<AttackResult>> {
  return LineWriter.open(path, journalFormat, header, resume, createHeader);
}
