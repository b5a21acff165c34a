import { z } from "zod";
import { UserError } from "../errors.js";
import { buildAttackSpace } from "../text/replacements.js";
import type { Substitutions } from "../text/substitutions.js";
import { createTextTemplate } from "../text/text-template.js";
import { validate } from "../validate.js";
import { nearTieMargin } from "./attack-example.js";
import { createVictimInput } from "./attack-space.js";
import { type JournalHeader, readJournal } from "./journal.js";
import type { AttackResult } from "./result.js";
import { margin } from "./search.js";
import type { PreparedInput, Victim } from "./victim.js";

/** Probabilities may differ by this much between machines and batch shapes. */
const defaultTolerance = 1e-3;
const linesPerBatch = 256;

/** What a replay reads of a line: who writes a journal anew can give any line a checksum that fits. */
const lineSchema = z
  .object({
    id: z.string(),
    label: z.int().min(0),
    outcome: z.enum(["skipped", "success", "failed"]),
    before: z.array(z.number()),
    after: z.array(z.number()),
    edits: z.array(z.object({ position: z.int().min(0), from: z.string(), to: z.string() })),
    texts: z.array(z.string()).min(1),
    fieldSizes: z.array(z.int().min(0)),
    words: z.array(z.string()),
    final: z.array(z.string()),
  })
  .refine(({ label, before }) => label < before.length, { path: ["label"], error: "expected one of the classes" })
  .refine(({ fieldSizes, words }) => fieldSizes.reduce((sum, size) => sum + size, 0) === words.length, {
    path: ["fieldSizes"],
    error: "expected the words of each field",
  });

/** What a verified journal holds. */
export interface JournalVerification {
  readonly header: JournalHeader;
  readonly lines: number;
  readonly outcomes: Readonly<Record<AttackResult["outcome"], number>>;
}

/** Replays every line of a journal against a victim; a UserError names the first line that does not hold. */
export async function verifyJournal<Ready extends PreparedInput>(
  path: string,
  victim: Victim<Ready>,
  options: {
    readonly substitutions?: Substitutions | undefined;
    /** How far probabilities may lie apart, where the journal was computed in another precision. */
    readonly tolerance?: number | undefined;
  } = {},
): Promise<JournalVerification> {
  const { tolerance = defaultTolerance } = options;
  const outcomes = { skipped: 0, success: 0, failed: 0 };
  let header: JournalHeader | undefined;
  let batch: { line: number; result: AttackResult }[] = [];
  let lines = 0;
  const ids = new Set<string>();
  for await (const entry of readJournal(path)) {
    if (!header) {
      header = entry.header;
      checkHashes(
        header,
        { ...victim.hashes, ...(options.substitutions && { substitutions: options.substitutions.hash }) },
        path,
      );
    }
    lines++;
    const { id } = validate(lineSchema, entry.result, `${path}:${entry.line}`);
    if (ids.has(id))
      throw new UserError(`${path}:${entry.line}: the example ${id} was attacked in a line before; expected each once`);
    ids.add(id);
    outcomes[entry.result.outcome]++;
    checkEdits(entry.result, options.substitutions, `${path}:${entry.line}`);
    batch.push(entry);
    if (batch.length === linesPerBatch) {
      await replay(batch, victim, path, tolerance);
      batch = [];
    }
  }
  await replay(batch, victim, path, tolerance);
  if (!header) throw new UserError(`${path}: the journal has no results yet; continue it with --resume`);
  if (lines !== header.examples) {
    throw new UserError(
      `${path}:${lines + 1}: expected ${header.examples} results, the journal ends after ${lines}; continue it with --resume`,
    );
  }
  return { header, lines, outcomes };
}

function checkHashes(header: JournalHeader, known: Readonly<Record<string, string>>, path: string): void {
  for (const [name, hash] of Object.entries(known)) {
    if (header.hashes[name] === hash) continue;
    throw new UserError(
      `${path}: the journal was made with another ${name} (${header.hashes[name]?.slice(0, 12) ?? "none"}…, not ${hash.slice(0, 12)}…); give the same one`,
    );
  }
}

/** The edits must lead from the original words to the final ones, with words of the table where one is given. */
function checkEdits(result: AttackResult, substitutions: Substitutions | undefined, where: string): void {
  const { words, final, edits } = result;
  const replayed = [...words];
  for (const { position, from, to } of edits) {
    if (words[position] !== from)
      throw new UserError(
        `${where}: edit at word ${position}: expected "${words[position]}", the edit changes "${from}"`,
      );
    replayed[position] = to;
  }
  const wrong = replayed.findIndex((word, i) => word !== final[i]);
  if (wrong !== -1 || replayed.length !== final.length)
    throw new UserError(`${where}: the edits do not lead to the final text (word ${wrong})`);
  if (!substitutions || edits.length === 0) return;
  const { replacements: choices } = buildAttackSpace(words, getWordFields(result), [0, 1], substitutions);
  const outside = edits.find(({ position, to }) => !choices[position]!.includes(to));
  if (outside)
    throw new UserError(`${where}: "${outside.to}" is no substitute of "${outside.from}" in ${substitutions.name}`);
}

async function replay<Ready extends PreparedInput>(
  batch: readonly { line: number; result: AttackResult }[],
  victim: Victim<Ready>,
  path: string,
  tolerance: number,
): Promise<void> {
  const inputs = batch.flatMap(({ result }) => {
    const template = createTextTemplate(result.texts, result.words, getWordFields(result));
    return [result.words, result.final].map((words) =>
      victim.prepare(createVictimInput(words, getWordFields(result), template)),
    );
  });
  // The victim wants inputs of like length together; the answers go back to their places.
  const order = [...inputs.keys()].sort((a, b) => inputs[a]!.length - inputs[b]!.length || a - b);
  const rows = new Array<Float32Array>(inputs.length);
  for (let start = 0; start < order.length; start += victim.maxBatchSize) {
    const part = order.slice(start, start + victim.maxBatchSize);
    const answers = await victim.probabilities(part.map((i) => inputs[i]!));
    part.forEach((input, i) => {
      rows[input] = answers[i]!;
    });
  }
  batch.forEach(({ line, result }, i) => {
    const where = `${path}:${line}`;
    checkProbabilities(result.before, rows[2 * i]!, tolerance, "original", where);
    checkProbabilities(result.after, rows[2 * i + 1]!, tolerance, "final", where);
    checkOutcome(
      result,
      rows[2 * i]!,
      rows[2 * i + 1]!,
      tolerance > defaultTolerance ? 2 * tolerance : nearTieMargin,
      where,
    );
  });
}

function checkProbabilities(
  journal: readonly number[],
  replayed: ArrayLike<number>,
  tolerance: number,
  which: string,
  where: string,
): void {
  if (journal.length === replayed.length && journal.every((value, i) => Math.abs(value - replayed[i]!) <= tolerance))
    return;
  const now = Array.from(replayed, (value) => value.toFixed(4)).join(", ");
  throw new UserError(
    `${where}: the ${which} text has probabilities [${journal.join(", ")}] in the journal, the model gives [${now}]`,
  );
}

function checkOutcome(
  { outcome, label }: AttackResult,
  before: Float32Array,
  after: Float32Array,
  minMargin: number,
  where: string,
): void {
  const expect = (probabilities: Float32Array, fooled: boolean, which: string) => {
    const gap = margin({ probabilities }, label);
    if (gap < 0 === fooled || Math.abs(gap) < minMargin) return;
    throw new UserError(
      `${where}: the journal says "${outcome}", but the model classifies the ${which} text ${fooled ? "rightly" : "wrongly"}`,
    );
  };
  expect(before, outcome === "skipped", "original");
  expect(after, outcome !== "failed", "final");
}

function getWordFields(result: AttackResult): Uint8Array {
  return Uint8Array.from(result.fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field)));
}
