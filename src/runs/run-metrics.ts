import { join } from "node:path";
import { z } from "zod";
import { computeOutcomes } from "../evaluation/attack-summary.js";
import type { ExampleOutcomes } from "../evaluation/compare.js";
import { describeMetric, inconsistencyPrefix } from "../evaluation/metric-table.js";
import { mean } from "../evaluation/statistics.js";
import { exists, readJson } from "../files.js";
import { validate } from "../validate.js";
import type { AttackFolder } from "./attack-folder.js";
import { advglueResultSchema, type EvaluationResult } from "./results.js";
import type { Run } from "./run.js";

/** One number of a run. */
export interface MetricValue {
  readonly value: number;
  /** The number of examples it is a fraction of; null if it is not a fraction of examples. */
  readonly examples: number | null;
  /** Which examples were classified correctly; null if that is not known. */
  readonly outcomes: ExampleOutcomes | null;
}

const consistencySchema = z.object({ first: z.array(z.object({ steps: z.number(), rate: z.number() })) });

/**
 * Every number measured on a run, by metric id. This is the only definition of these numbers:
 * - `accuracy` and the other metrics of the test split;
 * - `clean`: accuracy on the attacked sample before any attack;
 * - an attack's name: accuracy under that attack, over finished journals;
 * - `worst-case`: fraction of examples that stay correct under every attack;
 * - `advglue` and `drop`; `inconsistent-N`.
 */
export async function readMetrics(run: Run): Promise<ReadonlyMap<string, MetricValue>> {
  const metrics = new Map<string, MetricValue>();
  const results = await run.results();
  if (results) for (const [id, value] of readTestMetrics(results.test)) metrics.set(id, value);
  const advglue = run.path("advglue");
  if (await exists(advglue)) {
    const { advglue: adversarial, drop } = validate(
      advglueResultSchema,
      await readJson(advglue, "the result"),
      advglue,
    );
    metrics.set("advglue", { value: adversarial.accuracy, examples: adversarial.examples, outcomes: null });
    metrics.set("drop", { value: drop, examples: null, outcomes: null });
  }
  for (const [id, value] of readAttackMetrics(await run.attacks())) metrics.set(id, value);
  const consistency = join(run.path("analysis"), "consistency.json");
  if (await exists(consistency)) {
    const { first } = validate(consistencySchema, await readJson(consistency, "the analysis"), consistency);
    for (const { steps, rate } of first)
      metrics.set(`${inconsistencyPrefix}${steps}`, { value: rate, examples: null, outcomes: null });
  }
  return metrics;
}

function readTestMetrics(test: EvaluationResult): [string, MetricValue][] {
  return Object.entries(test.metrics).map(([id, value]) => [
    id,
    {
      value,
      examples: describeMetric(id).unit === "fraction" ? test.examples : null,
      outcomes: id === "accuracy" ? readTestOutcomes(test) : null,
    },
  ]);
}

/** Which examples of the test split were classified correctly. */
function readTestOutcomes({ outcomes }: EvaluationResult): ExampleOutcomes {
  return new Map([...outcomes.correct].map((value, i) => [`${outcomes.examples}:${i}`, value === "1"]));
}

/** The numbers of finished journals: clean, each attack and the worst case over all of them. */
export function readAttackMetrics({ journals }: AttackFolder): [string, MetricValue][] {
  const finished = new Map([...journals].filter(([, journal]) => journal.finished));
  const metrics = [...computeOutcomes(finished)].map(([id, outcomes]): [string, MetricValue] => [
    id,
    { value: mean(Array.from(outcomes.values(), Number)), examples: outcomes.size, outcomes },
  ]);
  // One attack is its own worst case. It has no outcomes of its own, so that no comparison tests it
  // twice.
  const [only] = finished.size === 1 ? finished.keys() : [];
  const single = metrics.find(([id]) => id === only);
  return single ? [...metrics, ["worst-case", { ...single[1], outcomes: null }]] : metrics;
}
