import { z } from "zod";
import { type LineEntry, type LineFormat, LineWriter, parseHeader, readCheckedLines } from "../base/checked-lines.js";
import type { AttackResult } from "./result.js";

// Checksums detect accidents. A forged journal can have valid ones, so every line is checked.

const probability = z.number().min(-0.01).max(1.01);

/** The size of an attack space: the mean of logarithms is at most the logarithm of the mean. */
const spaceSchema = z
  .object({
    words: z.int().min(0),
    modifiableWords: z.int().min(0),
    substitutes: z.number().min(0),
    log10Combinations: z.number().min(0),
  })
  .refine(
    ({ modifiableWords, substitutes, log10Combinations }) =>
      // The candidates of a recipe depend on the text so far, so their number is not recorded.
      (substitutes === 0 && log10Combinations === 0) ||
      (log10Combinations >= modifiableWords * Math.log10(2) - 1e-6 &&
        log10Combinations <= modifiableWords * Math.log10(1 + substitutes) + 1e-6),
    { path: ["log10Combinations"], error: "expected a size that follows from the numbers of words and substitutes" },
  );

/** A line of a journal: an `AttackResult`. */
export const attackResultSchema = z
  .object({
    id: z.string().min(1),
    label: z.int().min(0),
    outcome: z.enum(["skipped", "success", "failed"]),
    queries: z.int().min(1),
    exhausted: z.boolean(),
    exact: z.boolean().optional(),
    nearTie: z.boolean(),
    ties: z.int().min(1).optional(),
    before: z.array(probability),
    after: z.array(probability),
    edits: z.array(z.object({ position: z.int().min(0), from: z.string(), to: z.string() })),
    space: spaceSchema,
    texts: z.array(z.string()).min(1).max(255),
    words: z.array(z.string()),
    fieldSizes: z.array(z.int().min(0)),
    finalTexts: z.array(z.string()),
    finalWords: z.array(z.string()),
    finalFieldSizes: z.array(z.int().min(0)),
    origins: z.array(z.int().min(-1)),
    goal: z.string().optional(),
    isAttacked: z.literal(false).optional(),
    density: z.object({ samples: z.int().min(1), flipped: z.int().min(0) }).optional(),
  })
  .superRefine((line, context) => {
    const { label, before, after, edits, space, texts, fieldSizes, words } = line;
    const { finalTexts, finalWords, finalFieldSizes, origins } = line;
    const check = (isValid: boolean, key: keyof typeof line, message: string): void => {
      if (!isValid) context.addIssue({ code: "custom", path: [key], message, input: line });
    };
    const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
    check(!line.density || line.density.flipped <= line.density.samples, "density", "expected at most all samples");
    check(label < before.length, "label", "expected one of the classes");
    check(after.length === before.length, "after", "expected as many probabilities as before the attack");
    check(fieldSizes.length === texts.length, "fieldSizes", "expected one number per text");
    check(sum(fieldSizes) === words.length, "fieldSizes", "expected the number of words per field");
    check(finalTexts.length === texts.length, "finalTexts", "expected as many texts as before the attack");
    check(finalFieldSizes.length === texts.length, "finalFieldSizes", "expected one number per text");
    check(
      sum(finalFieldSizes) === finalWords.length,
      "finalFieldSizes",
      "expected the number of final words per field",
    );
    check(origins.length === finalWords.length, "origins", "expected one origin per final word");
    check(
      origins.every((origin) => origin < words.length),
      "origins",
      "expected indices of original words",
    );
    check(space.words === words.length, "space", "expected the number of words");
    check(space.modifiableWords <= words.length, "space", "expected at most all words to be modifiable");
    check(
      edits.every(({ position, from }) => position < words.length + Number(from === "")),
      "edits",
      "expected positions of words",
    );
  });

/** The first line of a journal, after its format and version. */
export const journalHeaderSchema = z.object({
  attack: z.string(),
  options: z.unknown(),
  /** SHA-256 of model, tokenizer, substitutions, …, by name. */
  hashes: z.record(z.string(), z.string()),
  /** Everything else that determines the results (task, constraints, budget, …). */
  settings: z.record(z.string(), z.unknown()),
  seed: z.union([z.number(), z.string()]),
  /** Number of examples to attack. */
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

/** Returns the header of a journal from its first line. */
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
  for await (const { header, line, value } of lines) yield { header, line, result: value as AttackResult };
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
