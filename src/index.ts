/**
 * Temper: fine-tune text classifiers for adversarial robustness, attack them, and compare them.
 *
 *     import { train } from "temper-nlp";
 *     import { ascc } from "temper-nlp/methods";
 *
 *     const run = await train({
 *       model: "roberta-base", task: "sst2",
 *       tokenization: "word", substitutions: "wordnet", methods: [ascc()],
 *       out: "runs/ascc",
 *     });
 *     const report = await run.attack("pwws", { numExamples: 100 });
 *     console.log(report.clean, report.attacks.pwws?.accuracyUnderAttack);
 *
 * Methods, attacks, analyses, tensors and neural networks are in `temper-nlp/methods`, `/attacks`,
 * `/analysis`, `/tensor` and `/nn`.
 *
 * @module
 */

/** Schemas for the options of custom methods and attacks, of the version that Temper uses. */
export { z } from "zod";
export { type AttackReport, attack } from "./actions/attack/attack.js";
export type { AttackRequest } from "./actions/attack/attack-request.js";
export { calibrate } from "./actions/calibrate.js";
export { certify } from "./actions/certify.js";
export { type ComparisonReport, compare } from "./actions/compare.js";
export { doctor } from "./actions/doctor.js";
export { type EvaluateRequest, evaluate, evaluateAdvglue } from "./actions/evaluate.js";
export { type ExactReport, type ExactRequest, exact } from "./actions/exact/exact.js";
export { exportModel } from "./actions/export.js";
export { gate } from "./actions/gate/gate.js";
export { predict } from "./actions/predict/predict.js";
export { loadClassifier, type Prediction, TextClassifier } from "./actions/predict/text-classifier.js";
export { prune } from "./actions/prune.js";
export { push } from "./actions/push.js";
export { Run } from "./actions/run.js";
export { substitutions } from "./actions/substitutions/substitutions.js";
export { estimateRun } from "./actions/train/estimate-run.js";
export { type TrainRequest, train } from "./actions/train/train.js";
export { findTellingEmail } from "./actions/try/find-telling-email.js";
export { analyze } from "./analysis/index.js";
export type { AttackReference } from "./attacks/load-attack.js";
export { audit } from "./audit/audit.js";
export type { AuditRequest } from "./audit/audit-request.js";
export { verify } from "./audit/verify-audit.js";
export { UserError } from "./base/errors.js";
export { type Callbacks, type EventHandlers, listen, type TemperEvent } from "./base/events.js";
export { describeMetric } from "./evaluation/metric-table.js";
export { harden } from "./harden/harden.js";
export type { HardenRequest } from "./harden/harden-request.js";
export type { MethodReference } from "./methods/index.js";
export { report } from "./report/index.js";
export { listRuns } from "./runs/list-runs.js";
export type { EvaluationResult, Results } from "./runs/results.js";
export { serve } from "./serve/serve-model.js";
export type { RunConfig, RunConfigInput } from "./settings/config.js";
export { studio } from "./studio/studio.js";
export { sweep, table } from "./sweeps/index.js";
export { type Example, type InMemoryExample, loadTask, type Task, type TaskReference } from "./tasks/index.js";
export { Interrupted } from "./train/index.js";
