/**
 * Certificates: predictions that provably stay the same under edits of the text. A model is a
 * function from texts to scores; each certificate is a process that asks for the scores it needs.
 * `defineCertificate` defines one of your own.
 *
 * @example
 * import { certifyHashVote, coversEdits, runScoring } from "temper-nlp/certificates";
 * const options = { groups: 25, hashSeed: 0, numLabels: 2 };
 * const [certificate] = await runScoring([certifyHashVote(["a fine film"], options)], scoreTexts);
 * coversEdits(certificate!, { substitutions: 1, insertions: 0 });
 *
 * @module
 */

export { getTieMargin } from "../../models/inference/tie-margin.js";
export { canonicalize } from "../../text/canonicalize.js";
export { findHiddenText, type HiddenKind, type HiddenText } from "../../text/hidden-text.js";
export * from "../../text/windows.js";
export * from "./canonical.js";
export * from "./certificates.js";
export type * from "./certified-model.js";
export { certifyInRounds, checkInRounds } from "./certify-texts.js";
export { calibrateThreshold, checkBenignCount } from "./conformal.js";
export * from "./define-certificate.js";
export * from "./guard.js";
export * from "./hash-groups.js";
export * from "./hash-vote.js";
export * from "./scoring.js";
export {
  certifyHashVote,
  certifyVotes,
  computeWordMargins,
  countVoters,
  coversEdits,
  type GroupCertificate,
  type HashVoteOptions,
  sumScores,
  toGroupProbabilities,
} from "./votes.js";
export * from "./windows.js";
export { getWords, type WordEdits } from "./words.js";
