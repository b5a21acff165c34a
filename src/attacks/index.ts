/**
 * `temper-nlp/attacks`: write a custom attack, run attacks on a custom victim, and read attack logs
 * (journals).
 *
 * @module attacks
 */

export { type AttackExample, type AttackSpaceOptions, createAttackExample } from "./attack-space.js";
export { type Constraints, constraintsSchema } from "./constraints.js";
export type { HttpVictimOptions } from "./endpoint.js";
export { connectHttpVictim } from "./http-victim.js";
export { type JournalHeader, readJournal } from "./journal.js";
export { type AttackSpec, attackNames, attackSpecSchema, loadAttack } from "./load-attack.js";
export { SearchPool, type SearchPoolOptions } from "./pool.js";
export type { QueryCounters } from "./query-counters.js";
export type { AttackOutcome, AttackResult, Edit } from "./result.js";
export type { AttackerRunOptions } from "./run-attack.js";
export {
  type Attack,
  type AttackDefinition,
  type Candidate,
  type CandidateGenerator,
  countChangedWords,
  createUnchangedCandidate,
  firstMisclassified,
  getGoldProbability,
  isMisclassified,
  margin,
  modifiablePositions,
  type Score,
  type Search,
  type SearchProblem,
  withReplacement,
} from "./search.js";
export type { PreparedInput, Victim, VictimInput } from "./victim.js";
