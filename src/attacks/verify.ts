import { createHash } from "node:crypto";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { Rng } from "../base/rng.js";
import { formatExample } from "../tasks/example.js";
import { locateWords } from "../text/find-words.js";
import type { Substitutions } from "../text/substitutions.js";
import { createTextTemplate } from "../text/text-template.js";
import { countFooled } from "./confirm-success.js";
import { EditedText } from "./edited-text.js";
import { margin, nearTieMargin } from "./goals.js";
import { type JournalHeader, readJournal } from "./journal.js";
import { computeMaxQueries } from "./protocol.js";
import { type AttackResult, getWordFields } from "./result.js";
import { swapFromTable } from "./transformations/swap-from-table.js";
import type { AbleVictim } from "./victim.js";

/** Probabilities may differ by this much between hosts and batch shapes. */
const defaultTolerance = 1e-3;
const linesPerBatch = 256;

/** The content of a verified journal. */
export interface JournalVerification {
  readonly header: JournalHeader;
  readonly lines: number;
  readonly outcomes: Readonly<Record<AttackResult["outcome"], number>>;
}

interface JournalLine {
  readonly location: string;
  readonly result: AttackResult;
}

/**
 * Replays every line of a journal against a victim. A UserError names the first line that is not
 * confirmed.
 */
export async function verifyJournal(
  path: string,
  victim: AbleVictim,
  options: {
    readonly substitutions?: Substitutions | undefined;
    /**
     * Maximum difference of probabilities. Increase it if the journal was computed in another
     * precision.
     */
    readonly tolerance?: number | undefined;
    /** Hashes of the model that the victim was exported from. Its journals are accepted, too. */
    readonly exportedFrom?: Readonly<Record<string, string>> | null | undefined;
  } = {},
): Promise<JournalVerification> {
  const { substitutions, tolerance = defaultTolerance, exportedFrom } = options;
  const hashes = { ...victim.hashes, ...(substitutions && { substitutions: substitutions.hash }) };
  const outcomes = { skipped: 0, success: 0, failed: 0 };
  let header: JournalHeader | undefined;
  let batch: JournalLine[] = [];
  const ids = new Set<string>();
  const data = createHash("sha256");
  for await (const { header: found, line, result } of readJournal(path)) {
    if (!header) checkHashes(found, hashes, path, exportedFrom ?? {});
    header = found;
    const location = `${path}:${line}`;
    const { id, texts, label } = result;
    checkQueries(result, found, location);
    data.update(formatExample({ id, texts, label }));
    if (ids.has(id))
      throw new UserError(`${location}: example ${id} occurs in an earlier line. Expected each example once.`);
    ids.add(id);
    outcomes[result.outcome]++;
    checkEdits(result, substitutions, location);
    batch.push({ location, result });
    if (batch.length === linesPerBatch) {
      await replay(batch, victim, tolerance);
      batch = [];
    }
  }
  await replay(batch, victim, tolerance);
  const lines = ids.size;
  if (!header) throw new UserError(`${path}: the journal has no results yet. Continue it with --resume.`);
  if (lines !== header.examples)
    throw new UserError(
      `${path}:${lines + 1}: expected ${header.examples} results, but the journal ends after ${lines}. Continue it ` +
        "with --resume.",
    );
  const hash = data.digest("hex");
  if (header.hashes.data !== undefined && header.hashes.data !== hash)
    throw new UserError(
      `${path}: the ids, texts or labels are not those of the attacked examples (${shortenHash(header.hashes.data)}, ` +
        `now ${shortenHash(hash)}). Restore the file.`,
    );
  return { header, lines, outcomes };
}

const budgetSchema = z.union([z.number(), z.object({ perWord: z.number() })]);

/** A misclassified text is queried once, and no search may exceed its budget. */
function checkQueries(result: AttackResult, { settings }: JournalHeader, location: string): void {
  const { outcome, queries, edits, words } = result;
  const budget = computeMaxQueries(budgetSchema.safeParse(settings.budget).data, words.length);
  const isPossible = outcome === "skipped" ? queries === 1 : queries <= budget && (edits.length === 0 || queries > 1);
  if (!isPossible) throw new UserError(`${location}: ${queries} queries are not possible for the outcome "${outcome}"`);
}

function shortenHash(hash: string | undefined): string {
  return hash === undefined ? "none" : `${hash.slice(0, 12)}…`;
}

type Hashes = Readonly<Record<string, string>>;

/**
 * Rejects a file that was written with another model or table. A model and its export are the same
 * model: either the hashes are equal, or one was exported from the other, or both from a third. The
 * replay then decides.
 */
export function checkHashes(header: JournalHeader, expected: Hashes, path: string, exportedFrom: Hashes = {}): void {
  const source = (header.settings.exportedFrom ?? {}) as Hashes;
  for (const [name, hash] of Object.entries(expected)) {
    const found = header.hashes[name];
    const own = [hash, exportedFrom[name]].filter((each) => each !== undefined);
    if (!own.some((each) => each === found || each === source[name]))
      throw new UserError(
        `${path} was written with a different ${name} (${shortenHash(found)}, now ${shortenHash(hash)}). ` +
          `Pass the same ${name}.`,
      );
  }
}

/**
 * The edits must turn the original words into the final ones, and the final texts contain these.
 * With a table, every new word is a substitute of the original one.
 */
function checkEdits(result: AttackResult, substitutions: Substitutions | undefined, location: string): void {
  const { words, edits, finalWords, finalTexts } = result;
  const before = words.map((): string[] => []);
  const after: string[] = [];
  const remaining: (string | null)[] = [...words];
  for (const { position, from, to } of edits) {
    if (from === "") (before[position] ?? after).push(to);
    else if (words[position] !== from)
      throw new UserError(
        `${location}: the edit at word ${position} replaces "${from}", but the word is "${words[position]}"`,
      );
    else remaining[position] = to === "" ? null : to;
  }
  const found = [...remaining.flatMap((word, i) => [...before[i]!, ...(word === null ? [] : [word])]), ...after];
  const different = found.findIndex((word, i) => word !== finalWords[i]);
  if (different !== -1 || found.length !== finalWords.length)
    throw new UserError(`${location}: the edits do not produce the final text (word ${different})`);
  const rendered = createTextTemplate(finalTexts, finalWords, getWordFields(result.finalFieldSizes)).render(finalWords);
  if (rendered.some((text, field) => text !== finalTexts[field]))
    throw new UserError(`${location}: the final text does not contain the final words in their order`);
  if (substitutions) checkSubstitutes(result, substitutions, location);
}

function checkSubstitutes(result: AttackResult, substitutions: Substitutions, location: string): void {
  const { texts, words, edits, fieldSizes } = result;
  const original = EditedText.create(texts, () => locateWords(texts, words, getWordFields(fieldSizes)));
  const candidates = swapFromTable(substitutions).apply(original, [...words.keys()], new Rng(0)) as EditedText[];
  const allowed = new Set(candidates.map(({ origin, edit }) => `${origin} ${edit?.kind === "replace" && edit.word}`));
  const outside = edits.find(({ position, to }) => !allowed.has(`${position} ${to}`));
  if (outside)
    throw new UserError(
      `${location}: "${outside.to}" is not a substitute for "${outside.from}" in ${substitutions.name}`,
    );
}

async function replay(batch: readonly JournalLine[], victim: AbleVictim, tolerance: number): Promise<void> {
  const texts = batch.flatMap(({ result }) => [result.texts, result.finalTexts]);
  const rows = (await victim.predict(victim.prepare(texts))).map(({ probabilities }) => probabilities);
  for (const [i, line] of batch.entries()) {
    checkReplay(line, rows[2 * i]!, rows[2 * i + 1]!, tolerance);
    await checkFreshEvaluations(line, victim);
  }
}

/** The evaluations depend on the text alone, so they can be repeated, unless the victim answers at random. */
async function checkFreshEvaluations({ location, result }: JournalLine, victim: AbleVictim): Promise<void> {
  if (!result.fresh || !victim.isDeterministic) return;
  const { evaluations, fooled } = result.fresh;
  const found = countFooled(result, (await victim.predictFresh?.(result.finalTexts, evaluations)) ?? []);
  if (found === fooled) return;
  throw new UserError(
    `${location}: the journal records that the final text fooled ${fooled} of ${evaluations} fresh evaluations, but ` +
      `it fools ${found} of them`,
  );
}

/** The recorded probabilities and the outcome must agree with what the victim returns now. */
function checkReplay(
  { location, result }: JournalLine,
  before: ArrayLike<number>,
  after: ArrayLike<number>,
  tolerance: number,
): void {
  const { outcome, label, goal } = result;
  const fooledSearch = result.fresh !== undefined;
  const target = Number(/^targeted-(\d+)/.exec(goal ?? "")?.[1] ?? Number.NaN);
  const texts = [
    { which: "original", recorded: result.before, probabilities: before, isFooled: outcome === "skipped" },
    // The search took a text that fresh evaluations did not confirm for a success.
    { which: "final", recorded: result.after, probabilities: after, isFooled: outcome !== "failed" || fooledSearch },
  ];
  for (const { which, recorded, probabilities } of texts) {
    const isClose = recorded.every((value, i) => Math.abs(value - probabilities[i]!) <= tolerance);
    if (isClose && recorded.length === probabilities.length) continue;
    const computed = Array.from(probabilities, (value) => value.toFixed(4)).join(", ");
    throw new UserError(
      `${location}: the journal records probabilities [${recorded.join(", ")}] for the ${which} text, but the model ` +
        `returns [${computed}]`,
    );
  }
  const minMargin = tolerance > defaultTolerance ? 2 * tolerance : nearTieMargin;
  for (const { which, probabilities, isFooled } of texts) {
    // A failed attack on one class may end in another wrong class.
    if (which === "final" && !Number.isNaN(target) && outcome === "failed" && !fooledSearch) {
      if (margin({ probabilities }, target) < minMargin || result.isAttacked === false) continue;
      throw new UserError(`${location}: the journal records "failed", but the model returns the class of the goal`);
    }
    const gap = margin({ probabilities }, label);
    if (gap < 0 === isFooled || Math.abs(gap) < minMargin) continue;
    const prediction = isFooled ? "correctly" : "incorrectly";
    throw new UserError(
      `${location}: the journal records "${outcome}", but the model classifies the ${which} text ${prediction}`,
    );
  }
}
