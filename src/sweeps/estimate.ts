import { randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunBenchmark } from "../actions/train/estimate-run.js";
import type { RunWork } from "../actions/train/run-work.js";
import { Interrupted, UserError } from "../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../base/events.js";
import type { WorkRequest } from "../jobs/work-request.js";
import { Worker, type WorkerSettings } from "../jobs/worker-process.js";
import { formatMethodNames } from "../settings/config.js";
import type { NewSweepPlan } from "./plan.js";
import { createWorkerEnvironments, usesOnlyCpu } from "./run-local.js";
import { formatDataName, listRunKinds, type RunKind, type SweepEstimate, scaleCosts } from "./scale-costs.js";
import { resolveInitialModel } from "./stages.js";

export interface EstimateOptions extends Callbacks, Pick<WorkerSettings, "program" | "trust"> {
  /** Concurrent runs. Null: one per GPU, or one. */
  readonly jobs: number | null;
  /** Aborted when the time for the estimate is used up. Default: after `estimateSeconds`. */
  readonly timeout?: AbortSignal;
}

export const estimateSeconds = 20;
/** No stack of methods gets more of it than this. */
const maxStackSeconds = 5;

/** Estimates runs in a worker that counts their work and measures a few steps of each stack. */
export async function estimateSweep(
  { plan, configs }: NewSweepPlan,
  runs: readonly string[],
  options: EstimateOptions,
): Promise<SweepEstimate | null> {
  const { signal, jobs, program, trust, timeout = AbortSignal.timeout(1000 * estimateSeconds) } = options;
  const deadline = performance.now() + 1000 * estimateSeconds;
  const kinds = await listRunKinds(runs.map((run) => resolveInitialModel(configs[run]!, configs)));
  const data = [...new Set(kinds.map((kind) => kind.data))];
  const stacks = [...new Set(kinds.map(({ stack }) => stack))];
  const works = new Map<RunKind, RunWork>();
  const benchmarks = new Map<string, RunBenchmark>();
  const environments = createWorkerEnvironments(usesOnlyCpu(configs), jobs);
  const folder = join(tmpdir(), `temper-estimate-${randomUUID()}`);
  // It gets as much of the host as one of the runs.
  const settings = { environment: environments[0] ?? {}, ...(program && { program }), ...(trust && { trust }) };
  const worker = new EstimateWorker(folder, settings, signal, timeout);
  const getSamplePath = (key: string): string => join(folder, `sample-${data.indexOf(key)}.json`);
  let done = 0;
  const execute = async (stage: string, request: WorkRequest): Promise<unknown> => {
    if (timeout.aborted) return null;
    reportProgress(options, stage, done++, data.length + stacks.length);
    return worker.execute(request);
  };
  const count = async (key: string): Promise<void> => {
    const counted = kinds.filter((kind) => kind.data === key);
    const runConfigs = counted.map(({ config }) => config);
    const request: WorkRequest = { kind: "count-work", configs: runConfigs, sample: getSamplePath(key) };
    const found = (await execute(`reads ${formatDataName(runConfigs[0]!)}`, request)) as RunWork[] | null;
    for (const [i, work] of found?.entries() ?? []) works.set(counted[i]!, work);
  };
  const measure = async (stack: string): Promise<void> => {
    const kind = kinds.find((each) => each.stack === stack && works.has(each));
    if (!kind) return;
    const { config } = kind;
    const remaining = (deadline - performance.now()) / 1000 / (stacks.length - benchmarks.size);
    const request: WorkRequest = {
      kind: "measure",
      config,
      sample: getSamplePath(kind.data),
      stepsPerEpoch: works.get(kind)!.stepsPerEpoch,
      seconds: Math.max(0, Math.min(maxStackSeconds, remaining)),
    };
    const found = await execute(`measures ${formatMethodNames(config)}`, request);
    if (found) benchmarks.set(stack, found as RunBenchmark);
  };
  try {
    // One run is complete before anything else, so that the others can be scaled from it.
    await count(data[0]!);
    await measure(stacks[0]!);
    for (const key of data.slice(1)) await count(key);
    for (const stack of stacks.slice(1)) await measure(stack);
  } finally {
    await worker.close();
  }
  if (benchmarks.size > 0) {
    const { checkpoints } = plan.settings.artifacts;
    return scaleCosts({ kinds, works, benchmarks }, { concurrentRuns: environments.length, checkpoints });
  }
  warn(options, `No step was measured within ${estimateSeconds} s, so the time of the sweep is not estimated.`);
  return null;
}

/** A worker process for the requests of an estimate. Its folder exists from the first request on. */
class EstimateWorker {
  readonly #folder: string;
  readonly #worker: Worker;
  readonly #signal: AbortSignal | undefined;
  readonly #timeout: AbortSignal;
  #count = 0;

  constructor(folder: string, settings: WorkerSettings, signal: AbortSignal | undefined, timeout: AbortSignal) {
    this.#folder = folder;
    this.#worker = new Worker(settings);
    this.#signal = signal;
    this.#timeout = timeout;
  }

  /** Returns the result, or null if the time is used up. */
  async execute(request: WorkRequest): Promise<unknown> {
    const getPath = (name: string): string => join(this.#folder, `${name}-${this.#count}`);
    const [requestPath, resultPath, log] = [getPath("request"), getPath("result"), getPath("log")];
    this.#count++;
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(requestPath, JSON.stringify(request));
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    const signals = [this.#signal, this.#timeout];
    if (signals.some((signal) => signal?.aborted)) abort();
    for (const signal of signals) signal?.addEventListener("abort", abort);
    const { status, error, result } = await this.#worker
      .execute({ request, requestPath, resultPath }, log, { stop: stop.signal })
      .finally(() => {
        for (const signal of signals) signal?.removeEventListener("abort", abort);
      });
    if (this.#signal?.aborted) throw new Interrupted("Stopped during the estimate. No run was started.");
    if (status === "done") return result;
    if (stop.signal.aborted) return null;
    if (error?.isUserError) throw new UserError(error.message);
    // The log is removed with the folder.
    const printed = await readFile(log, "utf8").catch(() => "");
    throw new Error(`The estimate failed. --no-estimate skips it. ${error?.message ?? status}\n${printed}`);
  }

  async close(): Promise<void> {
    await this.#worker.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
