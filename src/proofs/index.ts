/**
 * Journals of certificates, and proofs by enumeration. Certificates themselves are in
 * `certificates/index.ts`, which is public and loads little.
 */
export * from "./certificates/journal.js";
export { countCombinations } from "./exact/combinations.js";
export * from "./exact/proof-file.js";
export {
  type BlockLine,
  blockSize,
  maxSubstitutions,
  type ProofLine,
  proofLineSchema,
  type SubstitutionList,
  type TextLine,
} from "./exact/proof-lines.js";
export { countCandidates, findLastLevel, limitLevel, proveText } from "./exact/prove-text.js";
export { type Level, LevelScorer, listSubstitutions, measureDecidedMargin } from "./exact/score-candidates.js";
export * from "./exact/substitution-space.js";
export * from "./exact/summarize-proof.js";
export * from "./exact/verify-proof.js";
