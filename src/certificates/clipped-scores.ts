import { splitIntoGroups } from "./hash-groups.js";
import { type GroupCertificate, getTiePenalty, type HashVoteOptions } from "./hash-vote.js";
import { findLargestScore, type LabelScores, type ScoringProcess, type TextFields } from "./scoring.js";

/** The range of the score that one group gives to one label. */
export interface ScoreRange {
  readonly low: number;
  readonly high: number;
}

/** Scores are multiples of this, so that their sums are exact and ties are real. */
const scoreUnit = 2 ** -20;

/**
 * Classifies a text by the sum of the clipped scores of its groups. With d_g = score of A minus
 * score of B in group g, and R = high - low, a changed group lowers its d_g by at most d_g + R. So
 * the label A is certified for k changed groups if, for every B,
 *
 *     sum of all d_g > sum of the k largest (d_g + R), or >= if a tie goes to A.
 *
 * An empty group has d_g = 0. Votes are the case of scores 0 and 1.
 */
export function* certifyClippedScores(
  texts: TextFields,
  options: HashVoteOptions & ScoreRange,
): ScoringProcess<GroupCertificate> {
  const groups = splitIntoGroups(texts, options).filter((group) => group !== null);
  const rows = yield groups;
  return sumClippedScores(rows, options);
}

/** Sums the rows of the groups that are not empty. */
export function sumClippedScores(
  rows: readonly LabelScores[],
  { groups, numLabels, low, high }: Pick<HashVoteOptions, "groups" | "numLabels"> & ScoreRange,
): GroupCertificate {
  if (!(low < high)) throw new RangeError(`expected a range of scores, received ${low} to ${high}`);
  const toUnits = (score: number): number => Math.round(Math.min(high, Math.max(low, score)) / scoreUnit);
  const range = toUnits(high) - toUnits(low);
  const clipped = rows.map((row) => {
    if (Array.from(row).some(Number.isNaN)) throw new RangeError("expected numbers as scores, received NaN");
    return Array.from(row, toUnits);
  });
  const sums = Array.from({ length: numLabels }, (_, label) => clipped.reduce((sum, row) => sum + row[label]!, 0));
  const label = findLargestScore(sums);
  const limits = sums.map((sum, other) => {
    if (other === label) return Number.POSITIVE_INFINITY;
    const differences = Array.from({ length: groups }, (_, i) =>
      i < clipped.length ? clipped[i]![label]! - clipped[i]![other]! : 0,
    ).sort((first, second) => second - first);
    let margin = sums[label]! - sum - getTiePenalty(label, other);
    const limit = differences.findIndex((difference) => {
      margin -= difference + range;
      return margin < 0;
    });
    return limit < 0 ? groups : limit;
  });
  return { label, totals: sums.map((sum) => sum * scoreUnit), changeableGroups: Math.min(...limits) };
}
