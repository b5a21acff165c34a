import { UserError } from "../../base/errors.js";
import { canonicalize } from "../../text/canonicalize.js";
import {
  certifyVotes,
  countCertifiedEdits,
  countVoters,
  type HashVoteOptions,
  listVoters,
  toGroupProbabilities,
} from "./hash-vote.js";
import { findLargestScore, type LabelScores, type ScoreTexts, type TextFields } from "./scoring.js";
import { listWindowSizes, listWindows } from "./windows.js";

/** The edits that cannot change a prediction. */
export interface CertifiedEdits {
  readonly kind: "hash-vote" | "windows";
  /**
   * The number of words that may be substituted, inserted or deleted. For windows, null if any text
   * may come before and after, and 0 if nothing is certain.
   */
  readonly edits: number | null;
}

/** What a certified model answers. */
export interface CertifiedAnswer {
  readonly probabilities: readonly number[];
  readonly certified?: CertifiedEdits;
}

/**
 * A certified model: it classifies a text by parts of it, which another model classifies. It is a
 * model of its own, which every attack can attack.
 */
export interface CertifiedModel {
  /** Everything besides the other model that decides the answers. */
  readonly identity: { readonly kind: string } & Readonly<Record<string, unknown>>;
  split(texts: TextFields): readonly TextFields[];
  /** The answer by the probabilities of the parts. */
  answer(rows: readonly LabelScores[]): CertifiedAnswer;
  /**
   * Scores from 0 to 1 that a search follows. The largest one is the prediction, too. Default: the
   * probabilities of the answer.
   */
  score?(rows: readonly LabelScores[]): number[];
}

/** The model that classifies by the votes, or by the clipped scores, of groups of words. */
export function createVotingModel(options: HashVoteOptions): CertifiedModel {
  const { groups, hashSeed, editableFields, numLabels, clip = null } = options;
  return {
    identity: { kind: "hash-vote", groups, hashSeed, clip, editableFields },
    split: (texts) => listVoters(texts, options),
    answer(rows) {
      const certificate = certifyVotes(rows, options);
      return {
        probabilities: toGroupProbabilities(certificate.totals, clip, countVoters(groups, rows.length)),
        certified: { kind: "hash-vote", edits: countCertifiedEdits(certificate) },
      };
    },
    ...(clip === null && {
      score: (rows: readonly LabelScores[]) => scoreVotes(rows, numLabels, countVoters(groups, rows.length)),
    }),
  };
}

/**
 * Votes alone would not tell a search whether it comes closer, so mean probabilities are added. They
 * are too small to change the order of the labels: between labels with equal votes, in the order of
 * their indices, there is a gap that they cannot close.
 */
function scoreVotes(rows: readonly LabelScores[], numLabels: number, maxVotes: number): number[] {
  const votes = new Array<number>(numLabels).fill(0);
  for (const row of rows) votes[findLargestScore(row)]! += 1;
  const gap = 0.5 / numLabels;
  return votes.map((count, label) => {
    const mean = rows.reduce((sum, row) => sum + row[label]!, 0) / Math.max(1, rows.length);
    return (count - gap * label + 0.9 * gap * mean + 0.5) / (maxVotes + 1);
  });
}

/** The model that reads canonical forms. */
export function createCanonicalModel(): CertifiedModel {
  return {
    identity: { kind: "canonical" },
    split: (texts) => [texts.map(canonicalize)],
    answer: ([row]) => ({ probabilities: Array.from(row!) }),
  };
}

/** A model with two labels that flags texts of one of them. */
export interface Guard {
  /** Maximum words per window; null if complete texts are scored. */
  readonly windows: number | null;
  /** The index of the label that is flagged. */
  readonly positiveLabel: number;
  /** A text is flagged if its score is above. */
  readonly threshold: number;
  /** The false-positive rate that the threshold promises; null if it was not calibrated. */
  readonly fpr: number | null;
}

/**
 * The guard as a model. With windows, the score of a text is that of its worst window: text before
 * or after a text only adds windows, so it cannot lower the score.
 */
export function createGuardModel({
  windows,
  positiveLabel,
  threshold,
  minMargin = 0,
}: Omit<Guard, "fpr"> & { readonly minMargin?: number }): CertifiedModel {
  const sizes = windows === null ? null : listWindowSizes(windows, "doubling");
  const getScore = (rows: readonly LabelScores[]): number =>
    rows.reduce((most, row) => Math.max(most, row[positiveLabel]!), 0);
  const toRow = (score: number): number[] => (positiveLabel === 0 ? [score, 1 - score] : [1 - score, score]);
  return {
    identity: { kind: sizes === null ? "threshold" : "windows", sizes, positiveLabel, threshold },
    split(texts) {
      if (sizes === null) return [texts];
      if (texts.length !== 1) throw new UserError("windows: expected single texts, received a pair of texts.");
      return listWindows(texts[0]!, sizes).map((window) => [window]);
    },
    answer(rows) {
      const score = getScore(rows);
      const probabilities = toRow(score);
      if (windows === null) return { probabilities };
      // Without a limit: null. Only texts that are flagged have a certificate.
      return { probabilities, certified: { kind: "windows", edits: score > threshold + minMargin ? null : 0 } };
    },
    score: (rows) => toRow(moveThreshold(getScore(rows), threshold)),
  };
}

/** Moves the threshold of a score to 1/2, so that a search succeeds if a text is not flagged. */
function moveThreshold(score: number, threshold: number): number {
  return score > threshold ? 0.5 + (0.5 * (score - threshold)) / (1 - threshold) : (0.5 * score) / threshold;
}

/** A function from texts to scores, from a certified model and the model that classifies parts. */
export function scoreByParts(model: CertifiedModel, scoreTexts: ScoreTexts): ScoreTexts {
  return async (texts) => {
    const parts = texts.map((fields) => model.split(fields));
    const all = parts.flat();
    const rows = all.length === 0 ? [] : await scoreTexts(all);
    let start = 0;
    return parts.map(({ length }) => {
      start += length;
      const own = rows.slice(start - length, start);
      return model.score?.(own) ?? [...model.answer(own).probabilities];
    });
  };
}
