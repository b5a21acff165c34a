/**
 * Journals of certificates, and proofs by enumeration. Certificates themselves are in
 * `certificates/index.ts`, which is public and loads little.
 */
export * from "./certificates/journal.js";
export * from "./exact/proof-file.js";
export { maxSubstitutions, type ProofLine, proofLineSchema, type SubstitutionList } from "./exact/proof-lines.js";
export {
  countCandidates,
  findLastLevel,
  type ProofOptions,
  proveText,
  type TextProblem,
} from "./exact/prove-text.js";
export { listSubstitutions, measureDecidedMargin } from "./exact/score-candidates.js";
export * from "./exact/substitution-space.js";
export * from "./exact/summarize-proof.js";
export * from "./exact/verify-proof.js";
