import type { WordEdits } from "./edits.js";
import { type GroupOptions, splitIntoGroups } from "./hash-groups.js";
import { isUndecided } from "./near-ties.js";
import { findLargestScore, type LabelScores, type ScoringProcess, type TextFields } from "./scoring.js";

/** How a text is classified by groups of its words. */
export interface HashVoteOptions extends GroupOptions {
  readonly numLabels: number;
  /** Groups whose two largest scores differ by less are undecided. Default: 0. */
  readonly minMargin?: number | undefined;
}

/** A prediction by groups, and how many groups an attacker must change to change it. */
export interface GroupCertificate {
  readonly label: number;
  /** The votes, or the sums of scores, of each label. */
  readonly totals: readonly number[];
  /**
   * The label stays the same if at most this many groups change in any way. Below 0, undecided
   * groups alone can change it.
   */
  readonly changeableGroups: number;
}

/** A vote of groups. */
export interface VoteCertificate extends GroupCertificate {
  /** Groups whose vote is a near tie. They are counted as groups that change. */
  readonly undecided: number;
}

/**
 * Classifies a text by the vote of its groups, with a deterministic certificate. A substitution
 * changes at most two groups (of the old and of the new word), and an insertion or deletion
 * changes one. A changed group moves at most one vote from the winner A to another label B, so the
 * vote is certified for s substitutions and t insertions or deletions if, for every B,
 *
 *     n_A - n_B > 2 (2 s + t), or >= if a tie goes to A.
 */
export function* certifyHashVote(texts: TextFields, options: HashVoteOptions): ScoringProcess<VoteCertificate> {
  return certifyVotes(yield listVoters(texts, options), options);
}

/** The sub-texts of the groups that are not empty. */
export function listVoters(texts: TextFields, options: GroupOptions): TextFields[] {
  return splitIntoGroups(texts, options).filter((group) => group !== null);
}

/** Counts the votes of sub-texts by their scores. */
export function certifyVotes(
  rows: readonly LabelScores[],
  { numLabels, minMargin = 0 }: Pick<HashVoteOptions, "numLabels" | "minMargin">,
): VoteCertificate {
  const votes = countVotes(rows.map(findLargestScore), numLabels);
  // An undecided group may vote for another label the next time. So it is one more changed group.
  const undecided = rows.filter((row) => isUndecided(row, minMargin)).length;
  return { ...votes, undecided, changeableGroups: votes.changeableGroups - undecided };
}

/**
 * The fraction of votes for each label, as the probabilities of a model that votes. Its largest is
 * the label of the vote. All are equal if a text has no words.
 */
export function toVoteFractions({ totals }: GroupCertificate): number[] {
  const sum = totals.reduce((total, votes) => total + votes, 0);
  return totals.map((votes) => (sum === 0 ? 1 / totals.length : votes / sum));
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

/** The number of word edits of any kind that cannot change a vote; 0 if none is certain. */
export function countCertifiedEdits({ changeableGroups }: GroupCertificate): number {
  return Math.max(0, Math.floor(changeableGroups / countChangedGroups({ substitutions: 1, insertions: 0 })));
}
