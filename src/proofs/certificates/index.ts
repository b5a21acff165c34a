/**
 * Certificates: predictions that provably stay the same under edits of the text. A model is a
 * function from texts to scores; each certificate is a process that asks for the scores it needs.
 *
 * @example
 * import { certifyHashVote, coversEdits, runScoring } from "temper-nlp/certificates";
 * const options = { groups: 25, hashSeed: 0, numLabels: 2 };
 * const [certificate] = await runScoring([certifyHashVote(["a fine film"], options)], scoreTexts);
 * coversEdits(certificate, { substitutions: 1, insertions: 0 });
 *
 * @module
 */
export { canonicalize } from "../../text/canonicalize.js";
export { type CertifiedAccuracy, computeCertifiedAccuracy } from "./certified-accuracy.js";
export {
  type CertifiedAnswer,
  type CertifiedEdits,
  type CertifiedModel,
  createCanonicalModel,
  createGuardModel,
  createVotingModel,
  type Guard,
  scoreByParts,
} from "./certified-models.js";
export { calibrateThreshold, type FalsePositiveContract } from "./conformal.js";
export {
  computeDeletionShift,
  computeDeletionThreshold,
  computeEditThreshold,
  createDeletionKernel,
} from "./deletion.js";
export { listWordEdits, type WordEdits } from "./edits.js";
export { computeAlphaPerText, selectCertified } from "./family-confidence.js";
export { certifyGroupRows, certifyWithDeletions, type EditCertificate, scoreDeletions } from "./group-deletions.js";
export { assignGroup, type GroupOptions, splitIntoGroups, wordHashVersion } from "./hash-groups.js";
export {
  certifyHashVote,
  certifyVotes,
  coversEdits,
  type GroupCertificate,
  type HashVoteOptions,
} from "./hash-vote.js";
export { calibrateLabelSets, type LabelSetRule, listLabels } from "./label-sets.js";
export { computeMaskShift, countKeptWords, createMaskKernel, type MaskOptions } from "./mask.js";
export { type LabelScores, runScoring, type ScoreTexts, type ScoringProcess, type TextFields } from "./scoring.js";
export { computeConfidenceSequence, computeSequentialPValue } from "./sequential-test.js";
export { certifySmoothed, type NoiseKernel, type SmoothedCertificate, type SmoothingOptions } from "./smoothing.js";
export { createSynonymClusters, createSynonymNoise, type SynonymClusters, synonymCoverage } from "./synonyms.js";
export {
  hasWindow,
  listWindowSizes,
  listWindows,
  scoreWindows,
  type WindowScore,
  type WindowSizes,
} from "./windows.js";
export { getWords } from "./words.js";
