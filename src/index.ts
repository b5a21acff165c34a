/**
 * Temper: fine-tune text classifiers for adversarial robustness, attack them, and compare them.
 *
 *     import { fineTune } from "temper-nlp";
 *     import { ascc } from "temper-nlp/methods";
 *
 *     const run = await fineTune({
 *       model: "roberta-base", task: "sst2",
 *       tokenization: "word", substitutions: "wordnet", methods: [ascc()],
 *     }, { out: "runs/ascc" });
 *     const report = await run.attack("pwws", { numExamples: 100 });
 *     console.log(report.clean, report.attacks.pwws?.accuracyUnderAttack);
 *
 * Methods, attacks, analyses, tensors and neural networks are in `temper-nlp/methods`, `/attacks`,
 * `/analysis`, `/tensor` and `/nn`.
 *
 * @module
 */
export { analyze } from "./analysis/index.js";
export { UserError } from "./errors.js";
export { describeMetric } from "./evaluation/metric-table.js";
export { writeReport } from "./report/index.js";
export { type AttackReport, attack } from "./runs/attack.js";
export type { AttackRequest } from "./runs/attack-request.js";
export type { Callbacks, Progress } from "./runs/callbacks.js";
export { type ComparisonReport, compare, compareRuns } from "./runs/compare.js";
export type { RunConfig, RunConfigInput } from "./runs/config.js";
export { estimateRun } from "./runs/estimate-run.js";
export { type EvaluateRequest, evaluate, evaluateAdvglue } from "./runs/evaluate.js";
export { type FineTuneOptions, fineTune } from "./runs/fine-tune.js";
export { listRuns } from "./runs/list-runs.js";
export { type PretrainOptions, type PretrainRequest, type PretrainResults, pretrain } from "./runs/pretrain.js";
export type { EvaluationResult, Results } from "./runs/results.js";
export { Run } from "./runs/run.js";
export { loadClassifier, type Prediction, predict, TextClassifier } from "./runs/text-classifier.js";
export { verify } from "./runs/verify.js";
export { serveModel } from "./serve/serve-model.js";
export { runSweep } from "./sweeps/index.js";
export { type Example, type InMemoryExample, loadTask, type Task } from "./tasks/index.js";
export { Interrupted } from "./train/index.js";
