import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { EditedText } from "../../attacks/edited-text.js";
import type { JournalHeader } from "../../attacks/journal.js";
import { checkHashes } from "../../attacks/verify.js";
import type { AbleVictim } from "../../attacks/victim.js";
import { UserError } from "../../base/errors.js";
import { Rng } from "../../base/rng.js";
import { validate } from "../../base/validate.js";
import { describeDifference, findDifference, namedDataClass, type VerifiedClass } from "../../base/verification.js";
import { formatExample } from "../../tasks/example.js";
import { countCombinations } from "./combinations.js";
import { type Proof, readProof } from "./proof-file.js";
import {
  type BlockLine,
  blockSize,
  maxSubstitutions,
  type ProofLine,
  type ResultLine,
  type SubstitutionList,
  type TextLine,
} from "./proof-lines.js";
import { limitLevel, proveText, sortByMargin } from "./prove-text.js";
import { applySubstitutions, computeMargins, LevelScorer, listSubstitutions } from "./score-candidates.js";
import type { WordSubstitutes } from "./substitution-space.js";

export interface ProofVerification {
  readonly header: JournalHeader;
  readonly lines: number;
  readonly texts: number;
  /** Blocks in the proof, and blocks that were scored again. */
  readonly blocks: number;
  readonly checkedBlocks: number;
  /** Checked blocks whose line is the recorded one, with the hash of all scores. */
  readonly identicalBlocks: number;
  readonly classes: readonly VerifiedClass[];
  /** The probability that the check finds a proof of which this fraction of blocks is false. */
  readonly detection: readonly { readonly falseFraction: number; readonly probability: number }[];
}

export interface VerifyProofOptions {
  /** SHA-256 of the table, if it is known. */
  readonly substitutionsHash?: string | undefined;
  /** Lists the reduced substitutions of texts. Without it, those of the proof are used. */
  listWords?(texts: readonly (readonly string[])[]): Promise<readonly (readonly WordSubstitutes[])[]>;
  readonly blocks: number;
  readonly seed: number;
  /** Maximum difference of logit margins. */
  readonly tolerance: number;
  onBlock?(done: number, total: number): void;
}

/** A text of a proof, after its lines were checked. */
interface CheckedText {
  readonly location: string;
  readonly original: EditedText;
  readonly start: TextLine;
  readonly order: readonly number[] | null;
  readonly blocks: readonly BlockLine[];
  readonly result: ResultLine;
}

const proofOptionsSchema = z.looseObject({
  maxChanges: z.int().min(0).max(maxSubstitutions),
  budget: z.int().min(1).nullable(),
});

const falseFractions = [0.01, 0.05, 0.1];

/**
 * Checks a proof: every line has its checksum, the candidates are those of the table, their numbers
 * are complete, every text that is said to fool the victim does, and randomly drawn blocks have the
 * recorded scores. Throws a UserError at the first thing that does not hold.
 */
export async function verifyProof(
  path: string,
  victim: AbleVictim,
  options: VerifyProofOptions,
): Promise<ProofVerification> {
  const proof = await readProof(path);
  const { header } = proof;
  const { substitutionsHash } = options;
  checkHashes(header, { ...victim.hashes, ...(substitutionsHash && { substitutions: substitutionsHash }) }, path);
  const texts = await checkTexts(path, proof, victim, options);
  for (const text of texts) await checkWitnesses(text, victim, options.tolerance);
  // The same model in the same precision.
  const isSameVictim = header.hashes.victim === victim.hash;
  const all = texts.flatMap((text) => text.blocks.map((block) => ({ text, block })));
  const drawn = drawBlocks(all, options);
  const hasTable = options.listWords !== undefined;
  const counts = { checkedBlocks: drawn.length, identicalBlocks: 0, identicalOrders: 0 };
  for (const [i, { text, block }] of drawn.entries()) {
    const margins: number[] = [];
    if (await checkBlock(text, block, victim, options.tolerance, isSameVictim, margins)) counts.identicalBlocks++;
    if (block.changes === 1 && checkOrder(text, margins, options.tolerance)) counts.identicalOrders++;
    options.onBlock?.(i + 1, drawn.length);
  }
  const isComplete = drawn.length === all.length;
  const lines = [...proof.texts.values()].reduce((sum, each) => sum + each.length, 0);
  return {
    header,
    lines,
    texts: texts.length,
    blocks: all.length,
    checkedBlocks: counts.checkedBlocks,
    identicalBlocks: counts.identicalBlocks,
    classes: listClasses(texts, counts, hasTable, isSameVictim),
    detection: falseFractions.map((falseFraction) => ({
      falseFraction,
      probability: isComplete ? 1 : 1 - (1 - falseFraction) ** options.blocks,
    })),
  };
}

/** Counts what was verified. A block of another host has other last bits, and so has its order. */
function listClasses(
  texts: readonly CheckedText[],
  counts: { readonly checkedBlocks: number; readonly identicalBlocks: number; readonly identicalOrders: number },
  hasTable: boolean,
  isSameVictim: boolean,
): VerifiedClass[] {
  const { checkedBlocks, identicalBlocks, identicalOrders } = counts;
  const blocks = texts.reduce((sum, text) => sum + text.blocks.length, 0);
  const orders = texts.filter(({ order }) => order !== null).length;
  const attacks = texts.filter(({ start }) => start.attack !== null).length;
  return [
    { count: texts.length, what: "complete texts with results that follow from their blocks", isVerified: true },
    { count: hasTable ? texts.length : 0, what: "lists of substitutes of the table", isVerified: true },
    {
      count: identicalBlocks,
      // Another precision scores other candidates again, so that number is not compared.
      what: `blocks scored again with the same ${isSameVictim ? "line and SHA-256" : "SHA-256 in another precision"}`,
      isVerified: isSameVictim,
    },
    { count: identicalOrders, what: "orders of substitutions recomputed", isVerified: true },
    { count: attacks, what: "attacks that fooled the model, scored again", isVerified: true },
    { count: checkedBlocks - identicalBlocks, what: "blocks scored again with other last bits", isVerified: false },
    { count: blocks - checkedBlocks, what: "blocks not scored again", isVerified: false },
    { count: orders - identicalOrders, what: "orders of substitutions not confirmed", isVerified: false },
    { count: texts.length - attacks, what: "attacks recorded as failed and not repeated", isVerified: false },
    { count: hasTable ? 0 : texts.length, what: "lists of substitutes without their table", isVerified: false },
    namedDataClass,
  ].filter(({ count }) => count > 0);
}

/** Draws blocks with replacement, as the probability of a detection assumes. */
function drawBlocks<T>(all: readonly T[], { blocks, seed }: VerifyProofOptions): T[] {
  if (blocks >= all.length) return [...all];
  const rng = new Rng(seed).fork("verify");
  return [...new Set(Array.from({ length: blocks }, () => all[rng.integer(all.length)]!))];
}

async function checkTexts(
  path: string,
  { header, texts }: Proof,
  victim: AbleVictim,
  { listWords }: VerifyProofOptions,
): Promise<CheckedText[]> {
  const data = createHash("sha256");
  const checked: CheckedText[] = [];
  const options = validate(proofOptionsSchema, header.options, `${path}:1: options`);
  for (let index = 0; index < header.examples; index++) {
    const location = `${path}: text ${index}`;
    const lines = texts.get(index) ?? [];
    const [start, result] = [lines[0], lines.at(-1)];
    if (start?.kind !== "text" || result?.kind !== "result")
      throw new UserError(`${location}: the proof is not complete. Run the same temper exact command again.`);
    const { id, label, texts: fields } = start;
    data.update(formatExample({ id, label, texts: fields }));
    const original = EditedText.create(fields, victim.findWords);
    await checkLines(location, lines, original, victim, options);
    const order = lines.find(({ kind }) => kind === "order");
    checked.push({
      location,
      original,
      start,
      result,
      order: order?.kind === "order" ? order.order : null,
      blocks: lines.filter((line) => line.kind === "block"),
    });
  }
  if (data.digest("hex") !== header.hashes.data)
    throw new UserError(`${path}: the texts are not those of the header. Restore the file.`);
  const words = await listWords?.(checked.map(({ start }) => start.texts));
  for (const [i, { location, start }] of checked.entries())
    if (words && !isDeepStrictEqual(start.words, words[i]))
      throw new UserError(`${location}: the substitutes are not those of the table. Verify with the same table.`);
  return checked;
}

/** Checks that the lines of a text are complete and that its result follows from them. */
async function checkLines(
  location: string,
  lines: readonly ProofLine[],
  original: EditedText,
  victim: AbleVictim,
  { maxChanges, budget }: { readonly maxChanges: number; readonly budget: number | null },
): Promise<void> {
  const start = lines[0] as TextLine;
  const sizes = start.words.map(({ substitutes }) => substitutes.length);
  const fail = (what: string): never => {
    throw new UserError(`${location}: ${what}. The proof was changed; restore the file or prove the text again.`);
  };
  if (start.words.some(({ position }) => position >= original.length)) fail("a word is not in its text");
  const limit = budget ?? Number.POSITIVE_INFINITY;
  const substitutes = sizes.reduce((sum, size) => sum + size, 0);
  let [changes, done, scored] = [0, 0, 0];
  for (const line of lines) {
    if (line.kind === "order") {
      const isComplete = line.order.length === substitutes && new Set(line.order).size === substitutes;
      if (!isComplete || line.order.some((each) => each >= substitutes))
        fail("the order does not have every substitution once");
    }
    if (line.kind !== "block") continue;
    if (line.changes !== changes) [changes, done] = [line.changes, 0];
    const end = limitLevel(countCombinations(sizes, changes), limit - (scored - done));
    const expected = Math.min(blockSize, end - done);
    if (line.block !== Math.floor(done / blockSize)) fail("a block is missing");
    if (line.count > expected || (line.count < expected && line.margin >= 0))
      fail(`expected ${expected} candidates in a block, found ${line.count}`);
    done += line.count;
    scored += line.count;
  }
  // Without the result, the same algorithm must come to it without scoring a text.
  const refuse = { ...victim, predict: async () => fail("a block is missing") };
  const { id, label, texts, words, attack } = start;
  const problem = { index: start.index, example: { id, label, texts }, original, words, attack };
  const proofOptions = { maxChanges, budget: limit, onCall: () => undefined };
  const again: ProofLine[] = [];
  for await (const line of proveText(refuse, problem, proofOptions, lines.slice(0, -1))) again.push(line);
  if (!isDeepStrictEqual(again, lines)) fail("the result does not follow from the blocks");
}

/** Scores the original text, and the texts with which the attack and the proof fool the victim. */
async function checkWitnesses(
  { location, original, start, result }: CheckedText,
  victim: AbleVictim,
  tolerance: number,
): Promise<void> {
  const [margin] = await computeMargins(victim, [original], start.label);
  checkMargin(location, "the original text", start.margin, margin!, tolerance);
  for (const edits of [result.edits, start.attack]) {
    // The original text itself fools the victim if it is misclassified.
    if (!edits || (edits === result.edits && edits.length === 0)) continue;
    if (!isCandidate(start, edits, edits.length))
      throw new UserError(`${location}: the text that fools the victim is not one of the candidates.`);
    const [found] = await computeMargins(victim, [applySubstitutions(original, edits)], start.label);
    if (found! >= 0)
      throw new UserError(`${location}: expected a text that fools the victim, received a margin of ${found}.`);
  }
}

/** Returns true if the edits are so many substitutions of a text, each of another word, in their order. */
function isCandidate(start: TextLine, edits: SubstitutionList, changes: number): boolean {
  const allowed = new Set(listSubstitutions(start).map((edit) => JSON.stringify(edit)));
  const isSorted = edits.every(([position], i) => i === 0 || position > edits[i - 1]![0]);
  return (
    isSorted && edits.length === changes && changes > 0 && edits.every((edit) => allowed.has(JSON.stringify(edit)))
  );
}

function checkMargin(location: string, what: string, recorded: number, found: number, tolerance: number): void {
  if (recorded < 0 !== found < 0)
    throw new UserError(
      `${location}: ${what} has another class here: its margin is recorded as ${recorded}, the victim returns ${found}. ` +
        "The proof was changed, or it belongs to another model or to other hardware.",
    );
  const scale = Math.max(1, Math.abs(recorded));
  if (Math.abs(recorded - found) > tolerance * scale)
    throw new UserError(
      `${location}: expected the recorded margin ${recorded} of ${what}, the victim returns ${found}. The proof was ` +
        "changed, or it belongs to another model.",
    );
}

/**
 * Scores a block again and compares every key. Returns false if the scores have another hash: then
 * the rest of the line may differ by their rounding. `margins` receives those of all candidates.
 */
async function checkBlock(
  { location, original, start, order }: CheckedText,
  block: BlockLine,
  victim: AbleVictim,
  tolerance: number,
  isSameVictim: boolean,
  margins: number[],
): Promise<boolean> {
  const listed = listSubstitutions(start);
  const substitutions = block.changes === 1 || !order ? listed : order.map((each) => listed[each]!);
  const { index, changes } = block;
  const first = block.block * blockSize;
  const ranks = { start: first, end: first + block.count };
  const level = new LevelScorer(victim, { original, label: start.label, index, changes, substitutions, ...ranks });
  const found = await level.scoreBlock(() => undefined, margins);
  const where = `${location}, ${changes} substitutions, block ${block.block}`;
  if (!found) throw new UserError(`${where}: the block has no candidates. The proof was changed.`);
  if (found.hash === block.hash) {
    // Another precision scores other candidates again.
    const repeated = isSameVictim ? found.repeated : block.repeated;
    const difference = findDifference(block, [{ ...found, repeated }]);
    if (difference) throw new UserError(`${where}: ${describeDifference(difference, "the model")}.`);
    return true;
  }
  checkMargin(where, "the most promising candidate", block.margin, found.margin, tolerance);
  if (!isCandidate(start, block.edits, changes))
    throw new UserError(`${where}: its most promising candidate is not one of the candidates.`);
  const [margin] = await computeMargins(victim, [applySubstitutions(original, block.edits)], start.label);
  checkMargin(where, "the recorded candidate", block.margin, margin!, tolerance);
  if (block.repeated > block.count)
    throw new UserError(`${where}: ${block.repeated} of ${block.count} candidates cannot be scored again.`);
  return false;
}

/**
 * Compares the order of the substitutions of a text with the margins of its first level. Returns
 * false if they differ by their rounding, or if not all margins are known.
 */
function checkOrder({ location, order }: CheckedText, margins: readonly number[], tolerance: number): boolean {
  if (order === null || order.length !== margins.length) return false;
  const sorted = sortByMargin(margins);
  if (isDeepStrictEqual(sorted, order)) return true;
  for (const [i, each] of order.entries())
    checkMargin(location, `substitution ${i} in the order`, margins[each]!, margins[sorted[i]!]!, 2 * tolerance);
  return false;
}
