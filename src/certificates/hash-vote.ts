import type { WordEdits } from "./edits.js";
import { type GroupOptions, splitIntoGroups } from "./hash-groups.js";
import { findLargestScore, type ScoringProcess, type TextFields } from "./scoring.js";

/** How a text is classified by groups of its words. */
export interface HashVoteOptions extends GroupOptions {
  readonly numLabels: number;
}

/** A prediction by groups, and how many groups an attacker must change to change it. */
export interface GroupCertificate {
  readonly label: number;
  /** The votes, or the sums of scores, of each label. */
  readonly totals: readonly number[];
  /** The label stays the same if at most this many groups change in any way. */
  readonly changeableGroups: number;
}

/**
 * Classifies a text by the vote of its groups, with a deterministic certificate. A substitution
 * changes at most two groups (of the old and of the new word), and an insertion or deletion
 * changes one. A changed group moves at most one vote from the winner A to another label B, so the
 * vote is certified for s substitutions and t insertions or deletions if, for every B,
 *
 *     n_A - n_B > 2 (2 s + t), or >= if a tie goes to A.
 */
export function* certifyHashVote(texts: TextFields, options: HashVoteOptions): ScoringProcess<GroupCertificate> {
  const groups = splitIntoGroups(texts, options).filter((group) => group !== null);
  const rows = yield groups;
  return countVotes(rows.map(findLargestScore), options.numLabels);
}

/** Counts votes. An empty group abstains: it is not among the votes. */
export function countVotes(votes: readonly number[], numLabels: number): GroupCertificate {
  const totals = new Array<number>(numLabels).fill(0);
  for (const vote of votes) totals[vote]! += 1;
  const label = findLargestScore(totals);
  const limits = totals.map((count, other) => {
    if (other === label) return Number.POSITIVE_INFINITY;
    return Math.floor((totals[label]! - count - getTiePenalty(label, other)) / 2);
  });
  return { label, totals, changeableGroups: Math.min(...limits) };
}

/** A tie goes to the smaller index, so a label needs one more vote than a label before it. */
export function getTiePenalty(label: number, other: number): number {
  return other < label ? 1 : 0;
}

/** The largest number of groups that these edits can change. */
function countChangedGroups({ substitutions, insertions }: WordEdits): number {
  return 2 * substitutions + insertions;
}

/** Whether a prediction by groups stays the same under these edits. */
export function coversEdits({ changeableGroups }: GroupCertificate, edits: WordEdits): boolean {
  return countChangedGroups(edits) <= changeableGroups;
}
