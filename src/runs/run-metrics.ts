import { basename, join } from "node:path";
import { z } from "zod";
import { readJsonIfExists } from "../base/read-json.js";
import { computeOutcomes, findAttackedLabel } from "../evaluation/attack-summary.js";
import { describeDegeneracy } from "../evaluation/degenerate.js";
import {
  describeMetric,
  exactPrefix,
  getRecallLabel,
  inconsistencyPrefix,
  isAttackMetric,
} from "../evaluation/metric-table.js";
import { listGuardMetrics } from "../evaluation/operating-points.js";
import type { ExampleOutcomes } from "../evaluation/outcomes.js";
import { mean } from "../evaluation/statistics.js";
import { selectLargestSample } from "../evaluation/worst-case.js";
import { readProvenChanges } from "../proofs/index.js";
import type { AttackFolder } from "./attack-folder.js";
import { readCalibration } from "./calibration.js";
import { findProofs } from "./exact-folder.js";
import { advglueResultSchema, type EvaluationResult, exactResultSchema } from "./results.js";
import type { RunFolder } from "./run-folder.js";

export interface MetricValue {
  readonly value: number;
  /** The number of examples it is a fraction of; null if it is not a fraction of examples. */
  readonly examples: number | null;
  /** The examples that were classified correctly; null if that is not known. */
  readonly outcomes: ExampleOutcomes | null;
  /** The label whose texts were attacked; null or undefined if they are of every label. */
  readonly attackedLabel?: string | null;
  /**
   * False for an attack on other texts than those of `clean` and `worst-case`, which must not be
   * shown beside them.
   */
  readonly isPaired?: boolean;
}

const consistencySchema = z.object({ first: z.array(z.object({ steps: z.number(), rate: z.number() })) });

/**
 * Every number measured on a run, by metric id. This is the only definition of these numbers:
 * - `accuracy` and the other metrics of the test split;
 * - `clean`: accuracy on the largest attacked sample before any attack;
 * - an attack's name: accuracy under that attack, over finished journals;
 * - `worst-case`: fraction of the examples of that sample that stay correct under every attack on
 *   all of them;
 * - `exact-N`: fraction of the examples that no N substitutions fool, as an exact evaluation proved;
 * - `auc`, `recall-at-fpr:N` and `fpr-at-recall:N`, if the run has a calibrated threshold;
 * - `advglue` and `drop`; `inconsistent-N`.
 */
export async function readMetrics(run: RunFolder): Promise<ReadonlyMap<string, MetricValue>> {
  const metrics = new Map<string, MetricValue>();
  const results = await run.results();
  if (results) for (const [id, value] of readTestMetrics(results.test)) metrics.set(id, value);
  for (const { id, value, examples } of await readGuardMetrics(run))
    metrics.set(id, { value, examples: describeMetric(id).unit === "fraction" ? examples : null, outcomes: null });
  const adversarial = await readJsonIfExists(run.path("advglue"), advglueResultSchema, "the result");
  if (adversarial) {
    const { advglue, drop } = adversarial;
    metrics.set("advglue", { value: advglue.accuracy, examples: advglue.examples, outcomes: null });
    metrics.set("drop", { value: drop, examples: null, outcomes: null });
  }
  for (const [id, value] of readAttackMetrics(await run.attacks())) metrics.set(id, value);
  for (const [id, value] of await readExactMetrics(run)) metrics.set(id, value);
  const consistencyPath = join(run.path("analysis"), "consistency.json");
  const consistency = await readJsonIfExists(consistencyPath, consistencySchema, "the analysis");
  for (const { steps, rate } of consistency?.first ?? [])
    metrics.set(`${inconsistencyPrefix}${steps}`, { value: rate, examples: null, outcomes: null });
  return metrics;
}

/** The metrics of a run with a calibrated threshold at its operating points; empty for other runs. */
export async function readGuardMetrics(run: RunFolder): Promise<ReturnType<typeof listGuardMetrics>> {
  const points = (await readCalibration(run.folder))?.operatingPoints;
  return points ? listGuardMetrics(points) : [];
}

async function readExactMetrics(run: RunFolder): Promise<[string, MetricValue][]> {
  const done = await readJsonIfExists(run.path("exactResult"), exactResultSchema, "the exact result");
  const [first] = done ? await findProofs(run.path("exact")) : [];
  const path = done?.proof === undefined ? first : join(run.path("exact"), basename(done.proof));
  const found = path === undefined ? null : await readProvenChanges(path);
  return Array.from({ length: found?.maxChanges ?? 0 }, (_, i) => {
    const outcomes = new Map(Array.from(found!.provenUpTo, ([id, proven]) => [id, proven > i]));
    const value = mean(Array.from(outcomes.values(), Number));
    return [`${exactPrefix}${i + 1}`, { value, examples: outcomes.size, outcomes }];
  });
}

function readTestMetrics(test: EvaluationResult): [string, MetricValue][] {
  const correct = new Map(
    [...test.outcomes.correct].map((value, i) => [`${test.outcomes.examples}:${i}`, value === "1"]),
  );
  return Object.entries(test.metrics).map(([id, value]) => [
    id,
    {
      value,
      examples: describeMetric(id).unit === "fraction" ? countMetricExamples(test, id) : null,
      outcomes: id === "accuracy" ? correct : null,
    },
  ]);
}

/** A recall is a fraction of the examples of its label. */
function countMetricExamples({ examples, labels, confusionMatrix }: EvaluationResult, id: string): number {
  const label = getRecallLabel(id);
  if (label === null) return examples;
  return confusionMatrix[labels.indexOf(label)]?.reduce((sum, count) => sum + count, 0) ?? examples;
}

export async function readDegeneracy(run: RunFolder): Promise<string | null> {
  const results = await run.results();
  return results && describeDegeneracy(results.test.confusionMatrix, results.test.labels);
}

export function readAttackMetrics({ journals }: AttackFolder): [string, MetricValue][] {
  const finished = new Map([...journals].filter(([, journal]) => journal.finished));
  const attackedLabel = findAttackedLabel(finished.values());
  const all = computeOutcomes(finished);
  const paired = selectLargestSample(all);
  const metrics = [...all].map(([id, outcomes]): [string, MetricValue] => [
    id,
    {
      value: mean(Array.from(outcomes.values(), Number)),
      examples: outcomes.size,
      outcomes,
      attackedLabel,
      isPaired: !isAttackMetric(id) || paired.includes(id),
    },
  ]);
  // One attack is its own worst case. It has no outcomes of its own, so that no comparison tests it
  // twice.
  const single = paired.length === 1 ? metrics.find(([id]) => id === paired[0]) : undefined;
  return single ? [...metrics, ["worst-case", { ...single[1], outcomes: null }]] : metrics;
}
