import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunEstimate } from "../actions/train/estimate-run.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import type { Trust } from "../base/trust.js";
import type { WorkRequest } from "../jobs/work-request.js";
import { runWorker } from "../jobs/worker-process.js";
import type { RunConfig } from "../settings/config.js";
import type { NewSweepPlan } from "./plan.js";
import { resolveInitialModel } from "./stages.js";

/** What training the runs of a sweep costs on this host. */
export interface SweepEstimate {
  /** Seconds if the runs are trained one after the other. */
  readonly seconds: number;
  /** Maximum disk space of all runs together. */
  readonly diskBytes: number;
  /** Maximum memory of a run. */
  readonly memoryBytes: number;
  readonly device: string;
}

/**
 * Estimates runs from a few optimizer steps of some of them: every row in the first column and
 * every column in the first row. The cost of a row relative to the first row is assumed to be the
 * same in all columns.
 */
export async function estimateSweep(
  { plan, configs }: NewSweepPlan,
  runs: readonly string[],
  callbacks: Pick<Callbacks, "onEvent">,
  trust: Trust,
): Promise<SweepEstimate> {
  const [firstRow, firstColumn] = [plan.rows[0]!.id, plan.columns[0]!.id];
  const sampled = plan.cells.filter(({ row, column }) => row === firstRow || column === firstColumn);
  const seconds = new Map<string, number>();
  let [diskBytes, memoryBytes, modelBytes, device] = [0, 0, 0, "cpu"];
  const stageRuns = Object.values(plan.stages).filter((run) => runs.includes(run));
  const costs = new Map<string, number>();
  const measure = async (run: string, done: number): Promise<number> => {
    reportProgress(callbacks, "estimate", done, stageRuns.length + sampled.length);
    const cost = await estimateRunInWorker(resolveInitialModel(configs[run]!, configs), trust);
    diskBytes = Math.max(diskBytes, cost.diskBytes);
    memoryBytes = Math.max(memoryBytes, cost.memoryBytes);
    modelBytes = Math.max(modelBytes, 4 * cost.parameters);
    device = cost.device;
    return cost.seconds.prepare + cost.seconds.train + cost.seconds.evaluate;
  };
  for (const [i, { row, column, points }] of sampled.entries())
    seconds.set(`${row}/${column}`, await measure(points[0]!.runs[0]!, i));
  const getSeconds = (row: string, column: string): number => seconds.get(`${row}/${column}`)!;
  for (const { row, column, points } of plan.cells) {
    const cost = (getSeconds(row, firstColumn) * getSeconds(firstRow, column)) / getSeconds(firstRow, firstColumn);
    for (const { runs: names } of points) for (const name of names) costs.set(name, cost);
  }
  for (const [i, run] of stageRuns.entries()) costs.set(run, await measure(run, sampled.length + i));
  return {
    seconds: runs.reduce((sum, name) => sum + costs.get(name)!, 0),
    // A finished run without checkpoints is little more than its model. A run in progress has
    // checkpoints.
    diskBytes: plan.settings.artifacts.checkpoints ? diskBytes * runs.length : diskBytes + modelBytes * runs.length,
    memoryBytes,
    device,
  };
}

/** In a separate process, so that no device memory stays occupied while the sweep runs. */
async function estimateRunInWorker(config: RunConfig, trust: Trust): Promise<RunEstimate> {
  const folder = await mkdtemp(join(tmpdir(), "temper-estimate-"));
  try {
    const request: WorkRequest = { kind: "estimate", config };
    const [requestPath, resultPath] = [join(folder, "request.json"), join(folder, "result.json")];
    await writeFile(requestPath, JSON.stringify(request));
    const { error, result } = await runWorker({ request, requestPath, resultPath }, join(folder, "log.txt"), {
      trust,
    });
    if (error) throw new UserError(error.message);
    return result as RunEstimate;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
