import type { EditedText } from "../../attacks/edited-text.js";
import type { AbleVictim } from "../../attacks/victim.js";
import type { Example } from "../../tasks/example.js";
import { countCombinations } from "./combinations.js";
import { blockSize, type ProofLine, type ResultLine, type SubstitutionList, type TextLine } from "./proof-lines.js";
import { applySubstitutions, computeMargins, LevelScorer, listSubstitutions } from "./score-candidates.js";
import type { WordSubstitutes } from "./substitution-space.js";

/** The facts of one text that its proof needs. */
export interface TextProblem {
  readonly index: number;
  readonly example: Example;
  readonly original: EditedText;
  readonly words: readonly WordSubstitutes[];
  /** The substitutions with which an attack fooled the victim; null if it failed. */
  readonly attack: SubstitutionList | null;
}

export interface ProofOptions {
  readonly maxChanges: number;
  /** Maximum number of candidates per text. */
  readonly budget: number;
  /** Called with the number of candidates of each call. */
  onCall(count: number): void;
}

/** Counts the candidates with at most `maxChanges` changes. */
export function countCandidates(words: readonly WordSubstitutes[], maxChanges: number): number {
  const sizes = words.map(({ substitutes }) => substitutes.length);
  let sum = 0;
  for (let changes = 1; changes <= maxChanges; changes++) sum += countCombinations(sizes, changes);
  return sum;
}

/** The last number of substitutions to enumerate: below the attack's success, which needs no proof. */
export function findLastLevel({ attack }: Pick<TextLine, "attack">, maxChanges: number): number {
  return attack && attack.length <= maxChanges ? attack.length - 1 : maxChanges;
}

/**
 * The candidates of a level to score. Of a level that the budget does not cover, only the most
 * promising ones are, because they may fool the victim, but cannot prove that no other does.
 */
export function limitLevel(total: number, budget: number): number {
  return total <= budget ? total : Math.min(blockSize, budget);
}

/**
 * Finds the smallest number of substitutions that fools the victim. Yields the lines of the proof,
 * the result last. Lines of an earlier process are `known`: they are yielded without computing them
 * again, so that a resumed proof is the same as one without a stop.
 */
export async function* proveText(
  victim: AbleVictim,
  { index, example, original, words, attack }: TextProblem,
  { maxChanges, budget, onCall }: ProofOptions,
  known: readonly ProofLine[] = [],
): AsyncGenerator<ProofLine> {
  let next = 0;
  const take = <Kind extends ProofLine["kind"]>(
    kind: Kind,
    changes?: number,
  ): Extract<ProofLine, { kind: Kind }> | undefined => {
    const line = known[next];
    if (line?.kind !== kind || (line.kind === "block" && line.changes !== changes)) return undefined;
    next++;
    return line as Extract<ProofLine, { kind: Kind }>;
  };
  const { id, label, texts } = example;
  const first: TextLine = take("text") ?? {
    kind: "text",
    index,
    id,
    label,
    texts,
    words,
    ...(await scoreStart(victim, original, label, attack)),
  };
  yield first;
  const finish = (minChanges: number | null, provenUpTo: number, edits: SubstitutionList | null): ResultLine => {
    return take("result") ?? { kind: "result", index, minChanges, provenUpTo, edits, scored };
  };
  let scored = 0;
  if (first.margin < 0) return yield finish(0, -1, []);
  let substitutions = listSubstitutions(first);
  const sizes = words.map(({ substitutes }) => substitutes.length);
  // Levels from the attack's success on need no enumeration.
  const last = findLastLevel(first, maxChanges);
  const found = last < maxChanges ? first.attack : null;
  const bound = found?.length ?? null;
  for (let changes = 1; changes <= last; changes++) {
    const total = countCombinations(sizes, changes);
    const end = limitLevel(total, budget - scored);
    const margins: number[] = [];
    let [done, level]: [number, LevelScorer | null] = [0, null];
    while (done < end) {
      const recorded = take("block", changes);
      if (!recorded)
        level ??= new LevelScorer(victim, { original, label, index, changes, substitutions, start: done, end });
      const block = recorded ?? (await level!.scoreBlock(onCall, changes === 1 ? margins : undefined));
      if (!block) break;
      yield block;
      done += block.count;
      scored += block.count;
      if (block.margin < 0) return yield finish(changes, changes - 1, block.edits);
    }
    if (done < total) return yield finish(bound, changes - 1, found);
    if (changes > 1 || last === 1) continue;
    const order =
      take("order")?.order ?? sortByMargin(await scoreSingles(victim, original, label, substitutions, margins));
    yield { kind: "order", index, order };
    substitutions = order.map((each) => substitutions[each]!);
  }
  yield finish(bound, last, found);
}

/** Scores the original text and the text of the attack, which counts only if it fools here, too. */
async function scoreStart(
  victim: AbleVictim,
  original: EditedText,
  label: number,
  attack: SubstitutionList | null,
): Promise<Pick<TextLine, "margin" | "attack">> {
  const texts = [original, ...(attack ? [applySubstitutions(original, attack)] : [])];
  const [margin, attacked = 0] = await computeMargins(victim, texts, label);
  return { margin: margin!, attack: attacked < 0 ? attack : null };
}

/** The margins of all single substitutions. A resumed level is scored again. */
async function scoreSingles(
  victim: AbleVictim,
  original: EditedText,
  label: number,
  substitutions: SubstitutionList,
  known: readonly number[],
): Promise<readonly number[]> {
  if (known.length === substitutions.length) return known;
  const margins: number[] = [];
  const end = substitutions.length;
  const level = new LevelScorer(victim, { original, label, index: 0, changes: 1, substitutions, end });
  while (await level.scoreBlock(() => undefined, margins));
  return margins;
}

/** Indices of substitutions, the smallest margin first. */
export function sortByMargin(margins: readonly number[]): number[] {
  return [...margins.keys()].sort((a, b) => margins[a]! - margins[b]! || a - b);
}
