import { type GroupOptions, splitIntoGroups } from "./hash-groups.js";
import { findLargestScore, isUndecided, type LabelScores, type ScoringProcess, type TextFields } from "./scoring.js";
import type { WordEdits } from "./words.js";

/** Options of classifying a text by groups of its words. */
export interface HashVoteOptions extends GroupOptions {
  readonly numLabels: number;
  /**
   * Each group gives every label its lead over the other labels, in log-probabilities and at most
   * `clip` in size, which is a full vote. Null, the default: each group has one vote.
   */
  readonly clip?: number | null | undefined;
  /** Groups whose two largest probabilities differ by less are undecided. Default: 0. */
  readonly minMargin?: number | undefined;
}

/** A prediction by groups, and how many groups an attacker must change to change it. */
export interface GroupCertificate {
  readonly label: number;
  /** The votes, or the sums of scores, of each label. */
  readonly totals: readonly number[];
  /** The label stays the same if at most this many groups change in any way; -1 if it is a tie. */
  readonly changeableGroups: number;
  /** Groups whose vote is a near tie. They count as groups that vote for another label. */
  readonly undecided: number;
}

/**
 * Classifies a text by the scores of its groups, with a deterministic certificate. A substitution
 * changes at most two groups (of the old and of the new word), and an insertion or deletion
 * changes one. With d_g = score of A minus score of B in group g, from -1 to 1, a changed group lowers
 * its d_g by at most d_g + 1. So the label A is certified for k changed groups if, for every B, the
 * sum of all d_g is larger than the sum of the k largest (d_g + 1). For votes, this is
 *
 *     n_A - n_B > 2 (2 s + t), or >= if a tie goes to A,
 *
 * for s substitutions and t insertions or deletions. An empty group abstains: its d_g is 0.
 *
 * If each distinct word is a group, an edit can only remove a group, which takes d_g, or add one,
 * which takes at most 1. So k changed groups take at most k.
 */
export function* certifyHashVote(texts: TextFields, options: HashVoteOptions): ScoringProcess<GroupCertificate> {
  return certifyVotes(yield listVoters(texts, options), options);
}

/** The sub-texts of the groups that are not empty. */
export function listVoters(texts: TextFields, options: GroupOptions): TextFields[] {
  return splitIntoGroups(texts, options).filter((group) => group !== null);
}

type ScoreRule = Pick<HashVoteOptions, "groups" | "numLabels" | "clip" | "minMargin">;

/** Certifies a prediction from the probabilities of the groups that are not empty. */
export function certifyVotes(rows: readonly LabelScores[], options: ScoreRule): GroupCertificate {
  const { label, totals } = sumScores(rows, options);
  const limits = totals.flatMap((_, other) => {
    if (other === label) return [];
    const { differences, lead } = compareLabels(rows, label, other, options);
    let margin = lead;
    if (margin <= 0) return [-1];
    if (options.groups === "words") return [Math.ceil(margin) - 1];
    const losses = Array.from({ length: options.groups }, (__, group) => (differences[group] ?? 0) + 1);
    const limit = losses
      .sort((first, second) => second - first)
      .findIndex((loss) => {
        margin -= loss;
        return margin <= 0;
      });
    return [limit < 0 ? losses.length : limit];
  });
  const undecided = rows.filter((row) => isUncertain(row, options)).length;
  return { label, totals, undecided, changeableGroups: Math.min(...limits) };
}

/**
 * The lead that is left in the worst case of each number of edits, if each distinct word is a group. The label is
 * certified if it is above 0. A word that comes takes at most 1 from the lead, and a word that goes takes what is
 * known: its own d_g, which is at most 1. So the worst s substitutions remove the s words with the largest d_g and
 * add s words, and the worst t insertions or deletions are insertions.
 */
export function computeWordMargins(
  rows: readonly LabelScores[],
  options: ScoreRule,
  edits: readonly WordEdits[],
): number[] {
  const { label, totals } = sumScores(rows, options);
  const others = [...totals.keys()].filter((other) => other !== label);
  const compared = others.map((other) => {
    const { differences, lead } = compareLabels(rows, label, other, options);
    const losses = differences.filter((difference) => difference > 0).sort((first, second) => second - first);
    return { lead, losses };
  });
  return edits.map(({ substitutions, insertions }) => {
    const margins = compared.map(({ lead, losses }) => {
      const removed = losses.slice(0, substitutions).reduce((sum, loss) => sum + loss, 0);
      return lead - (removed + substitutions + insertions);
    });
    return Math.min(...margins);
  });
}

/** The prediction of a text by the probabilities of its groups. */
export function sumScores(
  rows: readonly LabelScores[],
  { numLabels, clip = null }: Pick<HashVoteOptions, "numLabels" | "clip">,
): { readonly label: number; readonly totals: readonly number[] } {
  const scores = rows.map((row) => toScores(row, clip));
  const totals = Array.from({ length: numLabels }, (_, label) => scores.reduce((sum, row) => sum + row[label]!, 0));
  return { label: findLargestScore(totals), totals };
}

/** The number of groups that can vote on a text of which so many groups are not empty. */
export function countVoters(groups: GroupOptions["groups"], present: number): number {
  return groups === "words" ? present : groups;
}

/**
 * The score of a label minus that of another one, from -1 to 1, for each group that is not empty, and the lead:
 * their sum minus the bound that it must exceed. A near tie counts against the first label.
 */
function compareLabels(rows: readonly LabelScores[], label: number, other: number, options: ScoreRule) {
  const { clip = null, minMargin = 0, groups } = options;
  const differences = rows.map((row) => {
    if (isUncertain(row, options)) return -1;
    const scores = toScores(row, clip);
    return scores[label]! - scores[other]!;
  });
  // Votes are whole numbers, and a tie goes to the smaller index. Leads may differ a little between
  // batches, in every group: by 4 times as much as probabilities near 1/2, twice for two labels.
  const slack = clip !== null ? (8 * minMargin * countVoters(groups, rows.length)) / clip : other < label ? 0.5 : -0.5;
  return { differences, lead: differences.reduce((sum, difference) => sum + difference, 0) - slack };
}

/** A vote that is a near tie may be another one the next time. */
function isUncertain(row: LabelScores, { clip = null, minMargin = 0 }: ScoreRule): boolean {
  return clip === null && isUndecided(row, minMargin);
}

function toScores(row: LabelScores, clip: number | null): number[] {
  if (clip === null) {
    const vote = findLargestScore(row);
    return Array.from(row, (_, label) => Number(label === vote));
  }
  if (!(clip > 0)) throw new RangeError(`expected a positive limit of scores, received ${clip}`);
  const logs = Array.from(row, (probability, label) => {
    if (!(probability >= 0 && probability < 1.001))
      throw new RangeError(`expected a probability as the score of label ${label}, received ${probability}`);
    return Math.log(Math.max(probability, minProbability));
  });
  const order = [...logs].sort((first, second) => second - first) as [number, number, ...number[]];
  return logs.map((log) => {
    const lead = log - (log === order[0] ? order[1] : order[0]);
    return Math.max(-1, Math.min(1, lead / clip)) / 2;
  });
}

/** Probabilities that are rounded to 0 have a logarithm, too. */
const minProbability = 1e-30;

/**
 * Probabilities of a model that classifies by groups: the fractions of votes, or of clipped leads,
 * of so many voters. Their largest is the label. All are equal if a text has no words.
 */
export function toGroupProbabilities(totals: readonly number[], clip: number | null, voters: number): number[] {
  const weights = clip === null ? totals : totals.map((total) => total + voters / 2);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => (sum === 0 ? 1 / totals.length : weight / sum));
}

/** Returns true if a prediction by groups stays the same under these edits. */
export function coversEdits(
  { changeableGroups }: Pick<GroupCertificate, "changeableGroups">,
  { substitutions, insertions }: WordEdits,
): boolean {
  return 2 * substitutions + insertions <= changeableGroups;
}

/** The number of word edits of any kind that cannot change a vote; 0 if none is certain. */
export function countCertifiedEdits({ changeableGroups }: GroupCertificate): number {
  return Math.max(0, Math.floor(changeableGroups / 2));
}
