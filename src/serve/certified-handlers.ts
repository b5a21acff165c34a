import type { WindowGuard } from "../actions/calibrate/find-guard.js";
import { classifyParts } from "../actions/predict/voting.js";
import {
  certifyVotes,
  countCertifiedEdits,
  type HashVoteOptions,
  listVoters,
  toVoteFractions,
} from "../certificates/hash-vote.js";
import type { LabelScores, TextFields } from "../certificates/scoring.js";
import { listWindowSizes, listWindows } from "../certificates/windows.js";
import type { Encoding } from "../text/encoding.js";
import { HttpError } from "./http.js";
import type { CertifiedAnswer, InferenceHandler } from "./inference-app.js";

/** How a text is classified by parts of it: a vote, or windows. */
export interface PartRule {
  split(texts: TextFields): TextFields[];
  combine(rows: readonly LabelScores[]): CertifiedAnswer;
}

/** Answers by the parts of texts. The parts of all texts of a batch are classified together. */
export function createPartsHandler(
  { split, combine }: PartRule,
  encode: (texts: readonly TextFields[]) => Promise<readonly Encoding[]>,
  predict: (encodings: readonly Encoding[]) => Promise<readonly LabelScores[]>,
): Pick<InferenceHandler<readonly Encoding[]>, "encode" | "predict"> {
  return {
    encode: (texts) => encode(split(texts)),
    predict: async (items) => (await classifyParts(items, predict)).map(combine),
  };
}

/** The rule of a model that votes. */
export function createVoteRule(options: HashVoteOptions): PartRule {
  return {
    split: (texts) => listVoters(texts, options),
    combine(rows) {
      const certificate = certifyVotes(rows, options);
      const certified = { kind: "hash-vote", edits: countCertifiedEdits(certificate) } as const;
      return { probabilities: toVoteFractions(certificate), certified };
    },
  };
}

/**
 * The rule of a guard with two labels: the score of a text is that of its worst window. Text before
 * or after a text only adds windows, so it cannot lower the score.
 */
export function createWindowRule({
  size,
  positiveLabel,
  threshold,
  minMargin,
}: WindowGuard & { readonly minMargin: number }): PartRule {
  const sizes = listWindowSizes(size, "doubling");
  return {
    split(texts) {
      if (texts.length !== 1) throw new HttpError(400, "Windows are for single texts, but a pair was sent.");
      return listWindows(texts[0]!, sizes).map((window) => [window]);
    },
    combine(rows) {
      const score = rows.reduce((most, row) => Math.max(most, row[positiveLabel]!), 0);
      const probabilities = positiveLabel === 0 ? [score, 1 - score] : [1 - score, score];
      // Without a limit: null. Only texts that are flagged have a certificate.
      return { probabilities, certified: { kind: "windows", edits: score > threshold + minMargin ? null : 0 } };
    },
  };
}
