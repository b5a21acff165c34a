import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { computeRunSeconds, type RunBenchmark } from "../actions/train/estimate-run.js";
import type { CountedWork, RunWork } from "../actions/train/run-work.js";
import { Interrupted, UserError } from "../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../base/events.js";
import { groupBy } from "../base/group-by.js";
import { mean } from "../evaluation/statistics.js";
import type { WorkRequest } from "../jobs/work-request.js";
import { createWorkerEnvironments, Worker, type WorkerSettings } from "../jobs/worker-process.js";
import { loadMethods, resolveMethods } from "../methods/index.js";
import { formatMethodNames, type RunConfig } from "../settings/config.js";
import { fitStepTime } from "../train/index.js";
import { type NewSweepPlan, usesOnlyCpu } from "./plan.js";
import { resolveInitialModel } from "./stages.js";

export interface EstimateOptions extends Callbacks, Pick<WorkerSettings, "program" | "trust"> {
  readonly jobs: number | null;
  /** Aborted when the time for the estimate is used up. Default: after `estimateSeconds`. */
  readonly timeout?: AbortSignal;
}

export const estimateSeconds = 20;
/** No stack of methods gets more of it than this. */
const maxStackSeconds = 5;

interface TimeRange {
  readonly seconds: number;
  readonly low: number;
  readonly high: number;
}

export interface SweepEstimate extends TimeRange {
  readonly concurrentRuns: number;
  readonly diskBytes: number;
  readonly device: string;
  /** The largest step that was measured. */
  readonly step: { readonly batchSize: number; readonly length: number };
  /** Parts that were not measured in time are scaled from the others. */
  readonly scaled: { readonly methods: readonly string[]; readonly data: readonly string[] };
}

/** Runs with the same cost, and what was counted and measured of them. */
interface RunKind {
  readonly config: RunConfig;
  count: number;
  /** Equal for runs with the same methods, whatever the weights of their losses are. */
  readonly stack: string;
  /** Equal for runs with the same texts and the same tokens. */
  readonly data: string;
  work?: RunWork;
  sample?: Extract<WorkRequest, { kind: "measure" }>["sample"];
  benchmark?: RunBenchmark;
}

export async function estimateSweep(
  { plan, configs }: NewSweepPlan,
  runs: readonly string[],
  options: EstimateOptions,
): Promise<SweepEstimate | null> {
  const { jobs, program, trust, signal, timeout = AbortSignal.timeout(1000 * estimateSeconds) } = options;
  const deadline = performance.now() + 1000 * estimateSeconds;
  const kinds = await listRunKinds(runs.map((run) => resolveInitialModel(configs[run]!, configs)));
  const datasets = [...groupBy(kinds, ({ data }) => data).values()];
  const stacks = [...groupBy(kinds, ({ stack }) => stack).values()];
  const environments = createWorkerEnvironments(usesOnlyCpu(configs), jobs);
  const folder = await mkdtemp(join(tmpdir(), "temper-estimate-"));
  // It gets as much of the host as one of the runs.
  const worker = new Worker({ environment: environments[0], program, trust });
  let done = 0;
  const execute = async (stage: string, request: WorkRequest): Promise<unknown> => {
    if (timeout.aborted) return null;
    reportProgress(options, stage, done, datasets.length + stacks.length);
    return executeWithin(worker, request, join(folder, String(done++)), signal, timeout);
  };
  const count = async (index: number): Promise<void> => {
    const same = datasets[index]!;
    const request: WorkRequest = { kind: "count-work", configs: same.map(({ config }) => config) };
    const counted = (await execute(`reads ${formatDataName(same[0]!.config)}`, request)) as CountedWork | null;
    for (const [i, kind] of same.entries())
      if (counted) Object.assign(kind, { work: counted.works[i], sample: counted.sample });
  };
  const measure = async (index: number): Promise<void> => {
    const same = stacks[index]!;
    const { config, work, sample } = same.find((kind) => kind.work) ?? {};
    if (!config || !work || !sample) return;
    const remaining = (deadline - performance.now()) / 1000 / (stacks.length - index);
    const seconds = Math.max(0, Math.min(maxStackSeconds, remaining));
    const { stepsPerEpoch } = work;
    const request: WorkRequest = { kind: "measure", config, sample, stepsPerEpoch, seconds };
    const benchmark = await execute(`measures ${formatMethodNames(config)}`, request);
    for (const kind of same) if (benchmark) kind.benchmark = benchmark as RunBenchmark;
  };
  try {
    // One run is complete before anything else, so that the others can be scaled from it.
    await count(0);
    await measure(0);
    for (let index = 1; index < datasets.length; index++) await count(index);
    for (let index = 1; index < stacks.length; index++) await measure(index);
  } finally {
    await worker.close();
    await rm(folder, { recursive: true, force: true });
  }
  if (kinds.some(({ benchmark }) => benchmark))
    return scaleCosts(kinds, environments.length, plan.settings.artifacts.checkpoints);
  warn(options, `No step was measured within ${estimateSeconds} s, so the time of the sweep is not estimated.`);
  return null;
}

/** Executes a request. Returns its result, or null if the time is used up. */
async function executeWithin(
  worker: Worker,
  request: WorkRequest,
  path: string,
  signal: AbortSignal | undefined,
  timeout: AbortSignal,
): Promise<unknown> {
  const [requestPath, resultPath, log] = [`${path}.request`, `${path}.result`, `${path}.log`];
  await writeFile(requestPath, JSON.stringify(request));
  const stop = AbortSignal.any(signal ? [signal, timeout] : [timeout]);
  const { status, error, result } = await worker.execute({ request, requestPath, resultPath }, log, { stop });
  if (signal?.aborted) throw new Interrupted("Stopped during the estimate. No run was started.");
  if (status === "done") return result;
  if (stop.aborted) return null;
  if (error?.isUserError) throw new UserError(error.message);
  // The log is removed with the folder.
  const printed = await readFile(log, "utf8").catch(() => "");
  throw new Error(`The estimate failed. --no-estimate skips it. ${error?.message ?? status}\n${printed}`);
}

async function listRunKinds(configs: readonly RunConfig[]): Promise<RunKind[]> {
  const kinds = new Map<string, RunKind>();
  const methodCosts = new Map<string, unknown>();
  for (const config of configs) {
    const { methods, seed, tags, train, device, precision, threads, cudaGraphs, ...texts } = config;
    const key = JSON.stringify(methods);
    if (!methodCosts.has(key)) methodCosts.set(key, await listMethodCosts(config));
    const stack = JSON.stringify([methodCosts.get(key), device, precision, threads, cudaGraphs]);
    const data = JSON.stringify(texts);
    const { epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps, evalSteps, evalEpochs } = train;
    const batches = [epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps, evalSteps, evalEpochs];
    const id = JSON.stringify([data, stack, batches]);
    const kind = kinds.get(id) ?? { config, stack, data, count: 0 };
    kind.count++;
    kinds.set(id, kind);
  }
  return [...kinds.values()];
}

/** The options that change the cost of methods. A weight of at most 1 only does so if it is 0. */
async function listMethodCosts({ methods }: RunConfig): Promise<unknown> {
  return resolveMethods(await loadMethods(methods)).map(({ name, options, definition }) => {
    if (definition.create(options).transformExamples) return [name, options];
    const toCost = (value: unknown): unknown => (typeof value === "number" && value <= 1 ? value !== 0 : value);
    return [name, Object.entries(options).map(([key, value]) => [key, toCost(value)])];
  });
}

function formatDataName({ task, data }: RunConfig): string {
  return task ?? basename(data ?? "");
}

/** Factors by which an estimated time can be wrong. */
const uncertainty = {
  /** A few steps, on a host that may do other work. */
  measured: 1.3,
  /** Per doubling of the work from the measured step to a step of the run. */
  doubling: 1.1,
  otherModel: 1.5,
  otherMethods: 2,
};

function scaleCosts(kinds: readonly RunKind[], concurrentRuns: number, keepsCheckpoints: boolean): SweepEstimate {
  const benchmarks = [...new Set(kinds.flatMap(({ benchmark }) => benchmark ?? []))];
  const times = kinds.map((kind) => estimateKind(kind, benchmarks));
  const typical = averageTimes(times.filter((time) => time !== null));
  const sum = (key: keyof TimeRange): number =>
    kinds.reduce((total, { count }, i) => total + count * (times[i] ?? typical)[key], 0);
  const works = kinds.flatMap(({ work }) => work ?? []);
  const diskBytes = Math.max(...works.map((work) => work.diskBytes));
  const modelBytes = 4 * Math.max(...works.map(({ parameters }) => parameters));
  const numRuns = kinds.reduce((total, { count }) => total + count, 0);
  const { batchSize, length } = benchmarks.map(({ steps }) => steps.at(-1)!).sort((a, b) => b.flops - a.flops)[0]!;
  const unmeasured = kinds.filter(({ benchmark }) => !benchmark);
  const unread = kinds.filter(({ work }) => !work);
  return {
    seconds: sum("seconds"),
    low: sum("low"),
    high: sum("high"),
    concurrentRuns,
    // A finished run without checkpoints is little more than its model.
    diskBytes: keepsCheckpoints ? diskBytes * numRuns : diskBytes + modelBytes * numRuns,
    device: benchmarks[0]!.device,
    step: { batchSize, length },
    scaled: {
      methods: [...new Set(unmeasured.map(({ config }) => formatMethodNames(config)))],
      data: [...new Set(unread.map(({ config }) => formatDataName(config)))],
    },
  };
}

function estimateKind({ work, benchmark: own }: RunKind, benchmarks: readonly RunBenchmark[]): TimeRange | null {
  if (!work) return null;
  const fits = benchmarks.flatMap(({ steps }) => (steps.length > 1 ? [fitStepTime(steps)] : []));
  const perStepGuess = fits.length > 0 ? Math.min(...fits.map(({ perStep }) => perStep)) : 0;
  const times = (own ? [own] : benchmarks).map((benchmark) => {
    const { prepare, train, evaluate } = computeRunSeconds(work, benchmark, perStepGuess);
    const doublings = Math.log2(Math.max(1, work.flops.step / benchmark.steps.at(-1)!.flops));
    const factor =
      uncertainty.measured *
      uncertainty.doubling ** doublings *
      (benchmark.modelParameters === work.parameters ? 1 : uncertainty.otherModel) *
      (own ? 1 : uncertainty.otherMethods);
    const seconds = prepare + train + evaluate;
    return { seconds, low: seconds / factor, high: seconds * factor };
  });
  return averageTimes(times);
}

function averageTimes(times: readonly TimeRange[]): TimeRange {
  return {
    seconds: mean(times.map(({ seconds }) => seconds)),
    low: Math.min(...times.map(({ low }) => low)),
    high: Math.max(...times.map(({ high }) => high)),
  };
}
