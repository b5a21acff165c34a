import type { GroupOptions } from "./hash-groups.js";
import type { LabelScores, ScoringProcess, TextFields } from "./scoring.js";
import { compareLabels, type HashVoteOptions, listVoters, sumScores } from "./votes.js";
import { countWords, mapFieldWords, splitFields, type WordEdits } from "./words.js";

/** The probabilities of the groups that are not empty, and those without each of their words. */
export interface GroupRows {
  readonly rows: readonly LabelScores[];
  /** For each group, one row per word that can be deleted. Null is an empty group. */
  readonly without: readonly (readonly (LabelScores | null)[])[];
}

/** A prediction by groups with the lead that each number of edits leaves in the worst case. */
export interface EditCertificate {
  readonly label: number;
  readonly totals: readonly number[];
  /** For each number of edits. The label is certified if the margin is above 0. */
  readonly margins: readonly number[];
}

/** Computes the probabilities that `certifyGroupRows` needs. */
export function* scoreDeletions(texts: TextFields, options: GroupOptions): ScoringProcess<GroupRows> {
  const groups = listVoters(texts, options);
  const shorter = groups.map((group) =>
    options.groups === "words" ? [null] : listDeletions(group, options.editableFields),
  );
  const scored = yield [...groups, ...shorter.flat().filter((text) => text !== null)];
  let next = groups.length;
  const without = shorter.map((list) => list.map((text) => (text === null ? null : scored[next++]!)));
  return { rows: scored.slice(0, groups.length), without };
}

/** The sub-text of a group without each of its words in turn; null if no word is left. */
function listDeletions(group: TextFields, editableFields: readonly number[] | undefined): (TextFields | null)[] {
  const fields = splitFields(group, editableFields);
  const count = countWords(fields);
  if (count === 1) return [null];
  return Array.from({ length: count }, (_, i) => mapFieldWords(fields, (word, index) => (index === i ? null : word)));
}

/**
 * Certifies a prediction from the probabilities of its groups, with every deletion of a word computed. A group that receives
 * a word may change in any way, but what a group does without one of its words is known: it lowers
 * the difference d_g of two labels by at most the largest drop among its words. Two deletions in one
 * group count as any change. A substitution is one deletion and one insertion. So the label A is
 * certified if, for every B, the sum of all d_g exceeds the largest loss over all distributions of
 * the edits over the groups. This never certifies less than `certifyHashVote`, at the cost of one
 * sub-text per word, or none if each distinct word is a group.
 */
export function certifyGroupRows(
  { rows, without }: GroupRows,
  options: Pick<HashVoteOptions, "groups" | "numLabels" | "clip" | "minMargin">,
  edits: readonly WordEdits[],
): EditCertificate {
  const { label, totals } = sumScores(rows, options);
  const most = Math.max(0, ...edits.map(({ substitutions, insertions }) => substitutions + insertions));
  const margins = edits.map(() => Number.POSITIVE_INFINITY);
  for (const other of totals.keys()) {
    if (other === label) continue;
    const { differences, slack, subtract } = compareLabels(rows, label, other, options);
    const isPerWord = options.groups === "words";
    // Inserted words are new groups if each word is one.
    const count = isPerWord ? rows.length + most : (options.groups as number);
    const groups = Array.from({ length: count }, (_, group) => {
      const difference = differences[group] ?? 0;
      const after = without[group]?.map((row) => (row === null ? 0 : subtract(row))) ?? [];
      const deleted = Math.max(0, ...after.map((each) => difference - each));
      const any = difference + 1;
      if (!isPerWord) return { inserted: any, deleted, deletedTwice: any };
      return { inserted: group < rows.length ? 0 : any, deleted, deletedTwice: deleted };
    });
    const losses = computeLargestLosses(groups, most);
    const lead = differences.reduce((sum, difference) => sum + difference, 0) - slack;
    for (const [i, { substitutions, insertions }] of edits.entries())
      for (let deleted = 0; deleted <= insertions; deleted++) {
        const loss = losses[substitutions + insertions - deleted]![substitutions + deleted]!;
        margins[i] = Math.min(margins[i]!, lead - loss);
      }
  }
  return { label, totals, margins };
}

/** The most that edits of one group take from the lead. */
interface GroupLosses {
  readonly inserted: number;
  readonly deleted: number;
  readonly deletedTwice: number;
}

/**
 * losses[i][d]: the largest loss by i inserted and d deleted words, over all distributions of the
 * edits over the groups.
 */
function computeLargestLosses(groups: readonly GroupLosses[], most: number): number[][] {
  const losses = Array.from({ length: most + 1 }, () => new Array<number>(most + 1).fill(0));
  // Downward, so that a group is counted once.
  for (const { inserted, deleted, deletedTwice } of groups)
    for (let i = most; i >= 0; i--)
      for (let d = most; d >= 0; d--)
        losses[i]![d] = Math.max(
          losses[i]![d]!,
          i > 0 ? losses[i - 1]![d]! + inserted : 0,
          d > 0 ? losses[i]![d - 1]! + deleted : 0,
          d > 1 ? losses[i]![d - 2]! + deletedTwice : 0,
        );
  return losses;
}
