import { exists } from "../base/files.js";
import { formatSpec } from "../base/spec.js";
import { describeMetric } from "../evaluation/metric-table.js";
import { wilsonInterval } from "../evaluation/statistics.js";
import { summarizeRunFolder } from "../runs/list-runs.js";
import { RunFolder } from "../runs/run-folder.js";
import { type MetricValue, readMetrics } from "../runs/run-metrics.js";
import type { MetricCell, RunRow } from "./api.js";

export interface RunPlace {
  readonly id: string;
  readonly name: string;
  readonly folder: string;
}

/**
 * Reads what the table shows of a run. A quick look leaves out the journals, so that a large table
 * appears quickly. A run that cannot be read is listed with the reason.
 */
export async function readRunRow(place: RunPlace, isQuick = false): Promise<RunRow> {
  const summary = await summarizeRunFolder(place.folder, true);
  const { method, accuracy, testExamples: examples } = summary;
  const known = accuracy === null ? {} : { accuracy: { value: accuracy, low: null, high: null, examples } };
  const base = { methodLabel: method ?? "", hasModel: false, attackedLabel: null, metrics: known };
  const unknown = { ...summary, ...place, ...base };
  if (isQuick || summary.state === "damaged") return unknown;
  try {
    const run = await RunFolder.open(place.folder);
    const metrics = await readMetrics(run);
    const paired = [...metrics].filter(([, { isPaired }]) => isPaired !== false);
    return {
      ...unknown,
      methodLabel: run.config.methods.map(formatSpec).join(" + ") || "standard",
      hasModel: await exists(run.path("model")),
      attackedLabel: metrics.get("clean")?.attackedLabel ?? null,
      metrics: Object.fromEntries(paired.map(([id, value]) => [id, toMetricCell(id, value)])),
    };
  } catch (error) {
    return { ...unknown, state: "damaged", failure: (error as Error).message };
  }
}

function toMetricCell(id: string, { value, examples }: MetricValue): MetricCell {
  const isFraction = examples !== null && describeMetric(id).unit === "fraction";
  const interval = isFraction ? wilsonInterval(Math.round(value * examples), examples) : null;
  return { value, low: interval?.low ?? null, high: interval?.high ?? null, examples };
}
