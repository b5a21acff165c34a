import type { LabelScores, TextFields } from "./scoring.js";

/** The edits that cannot change a prediction. */
export interface CertifiedEdits {
  readonly kind: string;
  /**
   * The number of words that may be substituted, inserted or deleted. For windows, null if any text
   * may come before and after, and 0 if nothing is certain.
   */
  readonly edits: number | null;
}

/** The answer of a certified model to a text. */
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
