import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { UserError } from "../errors.js";
import type { RunConfig } from "../runs/config.js";
import type { RunEstimate as RunPlan } from "../runs/estimate-run.js";
import type { SweepPlan } from "./plan.js";
import { temperProgram } from "./subprocess.js";

/** What the training of runs costs on this machine. */
export interface SweepEstimate {
  /** Seconds of one process after the other. */
  readonly seconds: number;
  /** What all runs together leave on the disk at most. */
  readonly diskBytes: number;
  /** The most that any run needs. */
  readonly memoryBytes: number;
  readonly device: string;
}

type RunEstimator = (
  config: RunConfig,
) => Promise<Pick<RunPlan, "seconds" | "diskBytes" | "memoryBytes" | "device" | "parameters">>;

/**
 * Reckons runs from a few updates of some: every row in the first column and every column in the first row. What a row costs more
 * than the first one, it is taken to cost in all columns.
 */
export async function estimateSweep(
  plan: SweepPlan,
  runs: readonly string[],
  onMeasure: (done: number, total: number) => void = () => undefined,
  measure: RunEstimator = estimateRunInSubprocess,
): Promise<SweepEstimate> {
  const getFirstConfig = (row: string, column: string): RunConfig => {
    const cell = plan.cells.find((each) => each.row === row && each.column === column);
    return plan.runs[cell!.points[0]!.runs[0]!]!;
  };
  const [rows, columns] = [plan.rows.map(({ id }) => id), plan.columns.map(({ id }) => id)];
  const total = rows.length + columns.length - 1;
  let done = 0;
  const seconds = new Map<string, number>();
  let [diskBytes, memoryBytes, modelBytes, device] = [0, 0, 0, "cpu"];
  for (const [row, column] of [
    ...columns.map((each) => [rows[0]!, each]),
    ...rows.slice(1).map((each) => [each, columns[0]!]),
  ]) {
    onMeasure(done++, total);
    const cost = await measure(getFirstConfig(row!, column!));
    seconds.set(`${row}/${column}`, cost.seconds.prepare + cost.seconds.train + cost.seconds.evaluate);
    diskBytes = Math.max(diskBytes, cost.diskBytes);
    memoryBytes = Math.max(memoryBytes, cost.memoryBytes);
    modelBytes = Math.max(modelBytes, 4 * cost.parameters);
    device = cost.device;
  }
  const getSeconds = (row: string, column: string): number => seconds.get(`${row}/${column}`)!;
  const [firstRow, firstColumn] = [rows[0]!, columns[0]!];
  const costs = new Map<string, number>();
  for (const { row, column, points } of plan.cells) {
    const cost = (getSeconds(row, firstColumn) * getSeconds(firstRow, column)) / getSeconds(firstRow, firstColumn);
    for (const { runs: names } of points) for (const name of names) costs.set(name, cost);
  }
  return {
    seconds: runs.reduce((sum, name) => sum + costs.get(name)!, 0),
    // Without checkpoints a finished run is little more than its model; one that is at work has them.
    diskBytes: plan.settings.artifacts.checkpoints ? diskBytes * runs.length : diskBytes + modelBytes * runs.length,
    memoryBytes,
    device,
  };
}

/** In a process of its own, so that no device memory stays taken while the sweep runs. */
async function estimateRunInSubprocess(config: RunConfig): Promise<RunPlan> {
  const folder = await mkdtemp(join(tmpdir(), "temper-plan-"));
  try {
    const file = join(folder, "config.yaml");
    await writeFile(file, stringify(config));
    const [program, ...words] = temperProgram as [string, ...string[]];
    const child = spawn(program, [...words, "train", "--config", file, "--dry-run", "--json", "--quiet"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [text, problem, code] = await Promise.all([
      readStream(child.stdout),
      readStream(child.stderr),
      waitForExit(child),
    ]);
    if (code !== 0) throw new UserError(problem.trim().replace(/^temper: /, "") || `the trial ended with ${code}`);
    return JSON.parse(text) as RunPlan;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function waitForExit(child: ReturnType<typeof spawn>): Promise<number | string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(code ?? String(signal)));
  });
}

async function readStream(stream: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}
