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
export { canonicalize } from "../../text/canonicalize.js";
export { findHiddenText, type HiddenKind, type HiddenText } from "../../text/hidden-text.js";
export { canonical } from "./canonical.js";
export { certificates, findCertificate } from "./certificates.js";
export type { CertifiedAnswer, CertifiedEdits, CertifiedModel } from "./certified-model.js";
export { certifyInRounds, checkInRounds } from "./certify-texts.js";
export {
  calibrateThreshold,
  checkBenignCount,
} from "./conformal.js";
export {
  type Certificate,
  type CertificateContext,
  type CertificateDefinition,
  type CertificateLine,
  type CertificateOptions,
  type CertificateParts,
  type CertificateSummary,
  type CertifiedRow,
  computeCertifiedAccuracy,
  createCertificate,
  defineCertificate,
  describeEdits,
  type EditRow,
  type LabeledText,
  type ModelFacts,
  type TrainedCertificate,
} from "./define-certificate.js";
export {
  computeDeletionShift,
  computeDeletionThreshold,
  computeEditThreshold,
  createDeletionKernel,
  createTrainedDeletion,
  deletion,
} from "./deletion.js";
export { certifyGroupRows, type EditCertificate, type GroupRows, scoreDeletions } from "./group-deletions.js";
export { describeGuard, type Guard, type GuardSummary, guardSummarySchema, summarizeGuard } from "./guard.js";
export { assignGroup, type GroupOptions, splitIntoGroups, wordHashVersion } from "./hash-groups.js";
export { createTrainedVote, createVotingModel, hashVote } from "./hash-vote.js";
export {
  findLargestScore,
  getTieMargin,
  isUndecided,
  type LabelScores,
  runScoring,
  type ScoreTexts,
  type ScoringProcess,
  type TextFields,
} from "./scoring.js";
export { computeConfidenceSequence, computeSequentialPValue } from "./sequential-test.js";
export {
  certifySmoothed,
  type NoiseKernel,
  type SmoothedCertificate,
  type SmoothingOptions,
  selectCertified,
} from "./smoothing.js";
export {
  certifyHashVote,
  certifyVotes,
  countVoters,
  coversEdits,
  type GroupCertificate,
  type HashVoteOptions,
  sumScores,
  toGroupProbabilities,
} from "./votes.js";
export { createGuardModel, listWindowSizes, listWindows, scoreWindows, type WindowScore, windows } from "./windows.js";
export { getWords, type WordEdits } from "./words.js";
