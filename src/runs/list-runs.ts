import { stat } from "node:fs/promises";
import { UserError } from "../base/errors.js";
import { isAttackMetric } from "../evaluation/metric-table.js";
import { findRunFolders } from "./run-files.js";
import { RunFolder, type RunState } from "./run-folder.js";
import { type MetricValue, readDegeneracy, readMetrics } from "./run-metrics.js";

/**
 * A run as a list shows it. Of a damaged run, only the folder and the reason are known.
 *
 *     const [first]: RunSummary[] = await listRuns("runs");
 */
export interface RunSummary {
  readonly folder: string;
  readonly task: string | null;
  readonly method: string | null;
  readonly seed: number | null;
  readonly model: string | null;
  readonly tags: readonly string[];
  /** When it started, in ISO format; null if it is damaged. */
  readonly started: string | null;
  /** The time of training, without interruptions. */
  readonly seconds: number;
  readonly state: RunState | "damaged";
  readonly step: number;
  readonly steps: number | null;
  /** Accuracy on the test split; null before the run has finished. */
  readonly accuracy: number | null;
  readonly testExamples: number | null;
  /** The attack that left the lowest accuracy, over finished journals of the same texts; null before an attack. */
  readonly underAttack: {
    readonly attack: string;
    readonly accuracy: number;
    readonly examples: number;
    /** The label whose texts were attacked, so that the accuracy is its recall; null: every label. */
    readonly attackedLabel: string | null;
  } | null;
  /** The reason why the model is degenerate, so that its numbers do not count; null if it is not. */
  readonly degeneracy: string | null;
  /** The best validation value so far, and its metric. */
  readonly bestValidation: number | null;
  readonly metricForBestModel: string | null;
  /** The reason why it failed, or the damage. */
  readonly failure: string | null;
}

/**
 * Lists the runs at or below a folder, sorted by path. A run that cannot be read does not hide the
 * others.
 *
 *     for (const { folder, state } of await listRuns("runs")) console.log(folder, state);
 */
export async function listRuns(folder: string): Promise<RunSummary[]> {
  return Promise.all((await findRunFolders(folder)).map((each) => summarizeRunFolder(each)));
}

/** Summarizes a run. A quick look leaves out the journals. */
export function summarizeRunFolder(folder: string, isQuick = false): Promise<RunSummary> {
  return summarizeRun(folder, isQuick).catch((error: unknown) => describeDamage(folder, error));
}

async function summarizeRun(folder: string, isQuick: boolean): Promise<RunSummary> {
  const run = await RunFolder.open(folder);
  const { metricForBestModel } = run.config.train;
  const [results, status, events, state] = await Promise.all([run.results(), run.status(), run.events(), run.state()]);
  const [timings, { mtime }] = await Promise.all([run.timings(), stat(run.path("environment"))]);
  return {
    folder,
    task: results?.task ?? run.task,
    method: run.method,
    seed: run.config.seed,
    model: run.config.model,
    tags: run.config.tags,
    started: mtime.toISOString(),
    seconds: timings.reduce((sum, { seconds }) => sum + seconds, 0),
    state,
    step: results?.steps ?? events.at(-1)?.step ?? 0,
    steps: status?.steps ?? null,
    accuracy: results?.test.accuracy ?? null,
    testExamples: results?.test.examples ?? null,
    underAttack: isQuick ? null : findStrongestAttack(await readMetrics(run)),
    degeneracy: await readDegeneracy(run),
    bestValidation: events.findLast((event) => event.best === true)?.evaluation?.[metricForBestModel] ?? null,
    metricForBestModel,
    failure: state === "failed" ? (status?.failure ?? null) : null,
  };
}

function findStrongestAttack(metrics: ReadonlyMap<string, MetricValue>): RunSummary["underAttack"] {
  const attacks = [...metrics].filter(([id, { isPaired }]) => isAttackMetric(id) && isPaired === true);
  const [strongest] = attacks.sort(([, a], [, b]) => a.value - b.value);
  if (!strongest) return null;
  const [attack, { value: accuracy, examples, attackedLabel = null }] = strongest;
  return { attack, accuracy, examples: examples!, attackedLabel };
}

function describeDamage(folder: string, error: unknown): RunSummary {
  if (!(error instanceof UserError)) throw error;
  return {
    folder,
    task: null,
    method: null,
    seed: null,
    state: "damaged",
    step: 0,
    steps: null,
    model: null,
    tags: [],
    started: null,
    seconds: 0,
    accuracy: null,
    testExamples: null,
    underAttack: null,
    degeneracy: null,
    bestValidation: null,
    metricForBestModel: null,
    failure: error.message,
  };
}
