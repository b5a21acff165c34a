import { Rng } from "../tensor/random.js";
import { canonicalize } from "./canonicalize.js";
import { createDeletionKernel } from "./deletion.js";
import { countVotes, type HashVoteOptions, listVoters } from "./hash-vote.js";
import {
  findLargestScore,
  type LabelScores,
  runScoring,
  type ScoreTexts,
  type ScoringProcess,
  type TextFields,
} from "./scoring.js";
import { scoreWindows, type WindowSizes } from "./windows.js";

// A certified model is a model of its own, which every attack can attack. Its scores are what an
// attack searches by, and its largest score is its prediction. `scoreTexts` returns probabilities.

/**
 * The model that votes. Votes alone would not tell a search whether it comes closer, so mean
 * probabilities are added. They are too small to change the order of the labels: between labels
 * with equal votes, in the order of their indices, there is a gap that they cannot close.
 */
export function createVotingModel(scoreTexts: ScoreTexts, options: HashVoteOptions): ScoreTexts {
  return (texts) =>
    runScoring(
      texts.map((text) => scoreByVote(text, options)),
      scoreTexts,
    );
}

function* scoreByVote(texts: TextFields, options: HashVoteOptions): ScoringProcess<LabelScores> {
  return scoreVotes(yield listVoters(texts, options), options.numLabels);
}

/** The scores of a text from the probabilities of the sub-texts that vote. */
export function scoreVotes(rows: readonly LabelScores[], numLabels: number): number[] {
  const { totals } = countVotes(rows.map(findLargestScore), numLabels);
  const gap = 0.5 / numLabels;
  return totals.map((votes, label) => {
    const mean = rows.reduce((sum, row) => sum + row[label]!, 0) / Math.max(1, rows.length);
    return votes - gap * label + 0.9 * gap * mean;
  });
}

/**
 * An estimate of the model that is smoothed by deletion, with the same draws for every text, so
 * that a search compares texts and not draws. What it finds must be confirmed with fresh draws.
 */
export function createSmoothedModel(
  scoreTexts: ScoreTexts,
  { p, draws, seed, numLabels }: { p: number; draws: number; seed: number; numLabels: number },
): ScoreTexts {
  function* smooth(texts: TextFields): ScoringProcess<LabelScores> {
    const draw = createDeletionKernel(texts, p);
    const rows = yield Array.from({ length: draws }, (_, i) => draw(new Rng(seed).fork("attack", i)));
    return Array.from({ length: numLabels }, (_, label) => rows.reduce((sum, row) => sum + row[label]!, 0) / draws);
  }
  return (texts) => runScoring(texts.map(smooth), scoreTexts);
}

/** The model that reads canonical forms. */
export function createCanonicalModel(scoreTexts: ScoreTexts): ScoreTexts {
  return (texts) => scoreTexts(texts.map((fields) => fields.map(canonicalize)));
}

/** The model of two labels that scores a text by its windows. */
export function createWindowModel(scoreTexts: ScoreTexts, sizes: WindowSizes, positiveLabel: number): ScoreTexts {
  return async (texts) => {
    const scored = await runScoring(
      texts.map(([text]) => scoreWindows(text!, sizes, positiveLabel)),
      scoreTexts,
    );
    return scored.map(({ score }) => (positiveLabel === 0 ? [score, 1 - score] : [1 - score, score]));
  };
}
