import { createHash } from "node:crypto";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { Rng } from "../base/rng.js";
import { describeDifference, findDifference, namedDataClass, type VerifiedClass } from "../base/verification.js";
import { type Example, formatExample } from "../tasks/example.js";
import { locateWords } from "../text/find-words.js";
import type { Substitutions } from "../text/substitutions.js";
import { splitIntoPieces, type TextPiece } from "../text/text-pieces.js";
import { EditedText } from "./edited-text.js";
import { margin, nearTieMargin } from "./goals.js";
import { type JournalHeader, readJournal } from "./journal.js";
import { computeMaxQueries } from "./protocol.js";
import { type AttackResult, countFieldWords, getWordFields, readTarget } from "./result.js";
import { swapFromTable } from "./transformations/swap-from-table.js";
import type { AbleVictim } from "./victim.js";
import { listWordChanges } from "./word-changes.js";

/** Probabilities may differ by this much between hosts and batch shapes. */
const defaultTolerance = 1e-3;
const linesPerBatch = 256;

export interface JournalVerification {
  readonly header: JournalHeader;
  readonly lines: number;
  readonly outcomes: Readonly<Record<AttackResult["outcome"], number>>;
  /** The fields that were computed again, and those that were not. */
  readonly classes: readonly VerifiedClass[];
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
    /** The attacked examples, if they are known. Then an attack that was stopped holds for those that it finished. */
    readonly examples?: readonly Example[] | undefined;
  } = {},
): Promise<JournalVerification> {
  const { substitutions, tolerance = defaultTolerance, exportedFrom, examples } = options;
  const given = new Map(examples?.map((example) => [example.id, formatExample(example)]));
  const hashes = { ...victim.hashes, ...(substitutions && { substitutions: substitutions.hash }) };
  const outcomes = { skipped: 0, success: 0, failed: 0 };
  let header: JournalHeader | undefined;
  let batch: JournalLine[] = [];
  const ids = new Set<string>();
  let goal: string | undefined;
  const data = createHash("sha256");
  for await (const { header: found, line, result } of readJournal(path)) {
    if (!header) checkHashes(found, hashes, path, exportedFrom ?? {});
    header = found;
    const location = `${path}:${line}`;
    const { id, texts, label } = result;
    checkQueries(result, found, location);
    const formatted = formatExample({ id, texts, label });
    if (!examples) data.update(formatted);
    else if (given.get(id) !== formatted)
      throw new UserError(`${location}: example ${id} is not among the attacked examples. Restore the file.`);
    if (ids.has(id))
      throw new UserError(`${location}: example ${id} occurs in an earlier line. Expected each example once.`);
    ids.add(id);
    outcomes[result.outcome]++;
    if (ids.size === 1) goal = result.goal;
    const difference = findDifference(result, [recomputeLine(result, victim, goal)]);
    if (difference) throw new UserError(`${location}: ${describeDifference(difference, "its text")}`);
    checkEdits(result, victim, substitutions, location);
    batch.push({ location, result });
    if (batch.length === linesPerBatch) {
      await replay(batch, victim, tolerance);
      batch = [];
    }
  }
  await replay(batch, victim, tolerance);
  const lines = ids.size;
  if (!header) throw new UserError(`${path}: the journal has no results yet. Continue it with --resume.`);
  for (const formatted of given.values()) data.update(formatted);
  if (!examples && lines !== header.examples)
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
  const table = header.hashes.substitutions === undefined ? null : { isKnown: substitutions !== undefined };
  return { header, lines, outcomes, classes: listClasses(outcomes, table) };
}

/** Searches that were run again, all with the recorded outcome. */
export interface RepeatedSearches {
  readonly searches: number;
  /** Those of texts that the journal records as robust. */
  readonly robust: number;
  /** Those whose line is the recorded one in every field. */
  readonly identical: number;
}

/**
 * Counts what was verified in a journal with these outcomes, and with a table of substitutions if the attack had one. Only a
 * search can tell that a text is robust.
 */
export function listClasses(
  { success, failed, skipped }: JournalVerification["outcomes"],
  table: { readonly isKnown: boolean } | null,
  repeated: RepeatedSearches = { searches: 0, robust: 0, identical: 0 },
): VerifiedClass[] {
  const { searches, robust, identical } = repeated;
  // The searches ran with the header, so another attack or other settings would give other lines.
  const isRepeated = searches > 0 && searches === identical;
  const header: VerifiedClass = isRepeated
    ? { count: 1, what: "header with the attack and its settings, with which searches ran again", isVerified: true }
    : { count: 1, what: "header that names the attack and its settings", isVerified: false };
  return [
    header,
    { count: success, what: "texts that fool the model, recomputed", isVerified: true },
    ...(table === null
      ? []
      : [
          {
            count: success,
            what: table.isKnown ? "lists of edits checked against the table" : "lists of edits without their table",
            isVerified: table.isKnown,
          },
        ]),
    { count: skipped, what: "texts misclassified before the attack, recomputed", isVerified: true },
    { count: robust, what: "texts recorded as robust and searched again", isVerified: true },
    { count: searches - robust, what: "successes searched again with the same outcome", isVerified: true },
    { count: identical, what: "searches with the same queries and all other fields", isVerified: true },
    { count: failed - robust, what: "texts recorded as robust and not searched again", isVerified: false },
    {
      count: success + failed + skipped - identical,
      what: "lines whose queries and search space are recorded",
      isVerified: false,
    },
    namedDataClass,
  ].filter(({ count }) => count > 0);
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

/** The characters of texts that belong to no word, without white space, which edits change. */
function listGapCharacters(pieces: readonly (readonly TextPiece[])[]): string {
  const gaps = pieces.flat().filter(({ word }) => word === null);
  const characters = gaps.flatMap(({ text }) => [...text.replaceAll(/\s/g, "")]);
  return characters.sort().join("");
}

/** The facts that only a search can tell. A verification counts the lines whose search it has not repeated. */
export const searchFields = ["queries", "exhausted", "exact", "nearTie", "ties", "space"] as const;

/**
 * Computes what a line says about its texts and its goal, which all lines share. The model answers
 * for the probabilities and the outcome, and the search, which is not repeated, for the rest.
 */
function recomputeLine(result: AttackResult, victim: AbleVictim, goal: string | undefined): AttackResult {
  const { goal: _, isAttacked: recorded, ...rest } = result;
  const { texts, finalWords, origins, label, outcome } = result;
  const original = EditedText.create(texts, victim.findWords);
  const target = readTarget(goal);
  // A goal of another module may leave out any label.
  const isOther = goal !== undefined && !builtInGoals.test(goal);
  const isOutside = target === null ? isOther && recorded === false : label === target;
  return {
    ...rest,
    outcome: isOutside && outcome === "success" ? "failed" : outcome,
    words: original.words,
    fieldSizes: countFieldWords(original),
    edits: listWordChanges(original.words, finalWords, origins),
    ...(goal !== undefined && { goal }),
    ...(isOutside && outcome !== "skipped" && { isAttacked: false }),
  };
}

/** Goals that concern every label, or all but their target. */
const builtInGoals = /^(untargeted|targeted|input-reduction)/;

/**
 * The final texts must consist of the final words and of what was between the original ones. With a
 * table, every new word is a substitute of the original one.
 */
function checkEdits(
  result: AttackResult,
  victim: AbleVictim,
  substitutions: Substitutions | undefined,
  location: string,
): void {
  const { texts, words, fieldSizes, finalWords, finalTexts } = result;
  const pieces = splitIntoPieces(finalTexts, finalWords, getWordFields(result.finalFieldSizes));
  if (pieces.some((list, field) => list.map(({ text }) => text).join("") !== finalTexts[field]))
    throw new UserError(`${location}: the final text does not contain the final words in their order`);
  const original = splitIntoPieces(texts, words, getWordFields(fieldSizes));
  const isKept = listGapCharacters(pieces) === listGapCharacters(original);
  // A text that was written anew is read as it is.
  if (!isKept && EditedText.create(finalTexts, victim.findWords).words.join("\n") !== finalWords.join("\n"))
    throw new UserError(`${location}: the final text has other characters between its words than the original one`);
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
  for (const [i, line] of batch.entries()) checkReplay(line, rows[2 * i]!, rows[2 * i + 1]!, tolerance);
}

/** The recorded probabilities and the outcome must agree with what the victim returns now. */
function checkReplay(
  { location, result }: JournalLine,
  before: ArrayLike<number>,
  after: ArrayLike<number>,
  tolerance: number,
): void {
  const { outcome, label, goal } = result;
  const target = readTarget(goal);
  const texts = [
    { which: "original", recorded: result.before, probabilities: before, isFooled: outcome === "skipped" },
    { which: "final", recorded: result.after, probabilities: after, isFooled: outcome !== "failed" },
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
    const wanted = which === "final" && outcome !== "skipped" ? target : null;
    const gap = margin({ probabilities }, wanted ?? label);
    const isAsRecorded = wanted === null ? gap < 0 === isFooled : gap > 0 === isFooled || result.isAttacked === false;
    if (isAsRecorded || Math.abs(gap) < minMargin) continue;
    const found =
      wanted === null
        ? `classifies the ${which} text ${isFooled ? "correctly" : "incorrectly"}`
        : `returns ${isFooled ? "another class than that" : "the class"} of the goal`;
    throw new UserError(`${location}: the journal records "${outcome}", but the model ${found}`);
  }
}
