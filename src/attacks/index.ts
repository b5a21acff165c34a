/**
 * `temper-nlp/attacks`: compose attacks from goals, transformations, constraints and searches, use
 * the built-in ones as values, run them on a custom victim, and read attack logs (journals).
 *
 * @module attacks
 */

export type { Predictor, PreparedText } from "../models/inference/predictor.js";
export type { Score } from "../models/inference/score.js";
export type { Example } from "../tasks/example.js";
export { fitContext } from "./constraints/context.js";
export { maxEditDistance } from "./constraints/edit-distance.js";
export { allowedByLanguageModel } from "./constraints/language-model.js";
export { keepMostLikely, maxLikelihoodDrop } from "./constraints/likelihood.js";
export { samePartOfSpeech } from "./constraints/part-of-speech.js";
export { protectSpans } from "./constraints/protected-spans.js";
export { minSentenceSimilarity, type SimilarityOptions } from "./constraints/sentence-similarity.js";
export {
  keepStopWords,
  maxModificationRate,
  maxWordsChanged,
  minWordLength,
  minWordSimilarity,
  noRepeat,
  onlyFields,
  protectStopWords,
} from "./constraints/words.js";
export { type Attack, type AttackDefinition, defineAttack, type ReadyAttack } from "./define-attack.js";
export { type Edit, EditedText, type Slot } from "./edited-text.js";
export type { HttpVictimOptions } from "./endpoint.js";
export { createFunctionVictim, type PredictProbabilities } from "./function-victim.js";
export type { Goal } from "./goals.js";
export {
  createGoal,
  goalOptions,
  hardLabel,
  inputReduction as inputReductionGoal,
  isMisclassified,
  margin,
  targeted,
  untargeted,
} from "./goals.js";
export { connectHttpVictim } from "./http-victim.js";
export { type JournalHeader, readJournal } from "./journal.js";
export { attackNames, attackSpecSchema, equipAttack, loadAttack } from "./load-attack.js";
export { SearchPool, type SearchPoolOptions } from "./pool.js";
export type { HiddenWord, RunOptions, ScoredCandidate } from "./protocol.js";
export {
  type BatchSearch,
  type Candidate,
  type Constraint,
  expand,
  expandWords,
  findFirst,
  type Problem,
  type Recipe,
  type ScoredText,
  type Search,
  type SearchGenerator,
  score,
  scoreCandidates,
  type Transformation,
  type TransformationKind,
  Unproven,
} from "./protocol.js";
export type { QueryCounters } from "./query-counters.js";
export { a2t } from "./recipes/a2t.js";
export { alzantot } from "./recipes/alzantot.js";
export { ascc } from "./recipes/ascc.js";
export { auto } from "./recipes/auto.js";
export { badCharacters } from "./recipes/bad-characters.js";
export { bae } from "./recipes/bae.js";
export { bertAttack } from "./recipes/bert-attack.js";
export { charmer } from "./recipes/charmer.js";
export { checklist } from "./recipes/checklist.js";
export { clare } from "./recipes/clare.js";
export { deepwordbug } from "./recipes/deepwordbug.js";
export { exhaustive } from "./recipes/exhaustive.js";
export { fasterAlzantot } from "./recipes/faster-alzantot.js";
export { genetic } from "./recipes/genetic.js";
export { greedy } from "./recipes/greedy.js";
export { guard } from "./recipes/guard.js";
export { hotflip } from "./recipes/hotflip.js";
export { iga } from "./recipes/iga.js";
export { inputReduction } from "./recipes/input-reduction.js";
export { leap } from "./recipes/leap.js";
export { localSearch } from "./recipes/local-search.js";
export { pruthi } from "./recipes/pruthi.js";
export { pso } from "./recipes/pso.js";
export { pwws } from "./recipes/pwws.js";
export { random } from "./recipes/random.js";
export { textbugger } from "./recipes/textbugger.js";
export { textfooler } from "./recipes/textfooler.js";
export { type Resource, type ResourceGenerator, request } from "./requests.js";
export type { AttackResources, NeighborTable, ResourceName, SentenceEncoder } from "./resources.js";
export type { AttackOutcome, AttackResult } from "./result.js";
export { beamSearch } from "./searches/beam.js";
export { differentialEvolutionSearch } from "./searches/differential-evolution.js";
export { exhaustiveSearch } from "./searches/exhaustive.js";
export { type GeneticOptions, geneticSearch } from "./searches/genetic.js";
export { particleSwarmSearch } from "./searches/particle-swarm.js";
export { randomSearch } from "./searches/random.js";
export { weightedSaliencySearch } from "./searches/weighted-saliency.js";
export { type Ranking, rankWordsAndReplace } from "./searches/word-importance-ranking.js";
export { addPadding, appendWords, insertWords } from "./transformations/add-words.js";
export { type CharacterOperator, changeCharacters } from "./transformations/change-characters.js";
export { changeNames } from "./transformations/change-names.js";
export { changeNumbers } from "./transformations/change-numbers.js";
export { contractWords, expandContractions } from "./transformations/contractions.js";
export { deleteWord } from "./transformations/delete-word.js";
export { flipByGradient } from "./transformations/flip-by-gradient.js";
export { insertMaskedWords, mergeMaskedWords, replaceMaskedWords } from "./transformations/masked-words.js";
export { listRewritings, type Rewriting, rewriteText, rewriteWord } from "./transformations/rewrite-text.js";
export { swapFromTable } from "./transformations/swap-from-table.js";
export { swapNeighbors } from "./transformations/swap-neighbors.js";
export { swapSynonyms } from "./transformations/swap-synonyms.js";
export type { AbleVictim, Victim } from "./victim.js";
export type { WordChange } from "./word-changes.js";
