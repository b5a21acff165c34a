import { basename } from "node:path";
import { z } from "zod";
import { computeRunSeconds, type RunBenchmark } from "../actions/train/estimate-run.js";
import type { RunWork } from "../actions/train/run-work.js";
import { loadMethods, resolveMethods } from "../methods/index.js";
import { formatMethodNames, type RunConfig } from "../settings/config.js";
import { fitStepTime } from "../train/index.js";

export interface RunKind {
  readonly config: RunConfig;
  readonly count: number;
  /** Equal for runs with the same methods, whatever the weights of their losses are. */
  readonly stack: string;
  /** Equal for runs with the same texts and the same tokens. */
  readonly data: string;
}

/** Groups runs by what decides their cost. */
export async function listRunKinds(configs: readonly RunConfig[]): Promise<RunKind[]> {
  const kinds = new Map<string, RunKind>();
  const stacks = new Map<string, string>();
  for (const config of configs) {
    const methods = JSON.stringify(config.methods);
    if (!stacks.has(methods)) stacks.set(methods, await formatStack(config));
    const { device, precision, threads, cudaGraphs } = config;
    const stack = JSON.stringify([stacks.get(methods), device, precision, threads, cudaGraphs]);
    const data = formatData(config);
    const { epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps } = config.train;
    const { evalSteps, evalEpochs } = config.train;
    const batches = [epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps, evalSteps, evalEpochs];
    const key = JSON.stringify([data, stack, batches]);
    const known = kinds.get(key) ?? { config, stack, data, count: 0 };
    kinds.set(key, { ...known, count: known.count + 1 });
  }
  return [...kinds.values()];
}

/** The methods with the options that change their cost: a weight counts only as 0 or not 0. */
async function formatStack({ methods }: RunConfig): Promise<string> {
  const resolved = resolveMethods(await loadMethods(methods));
  return JSON.stringify(
    resolved.map(({ name, options, definition }) => {
      if (definition.create(options).transformExamples) return [name, options];
      const { properties = {} } = z.toJSONSchema(definition.options, { io: "input", unrepresentable: "any" });
      const costs = Object.entries(options).map(([key, value]) => {
        const isWeight =
          typeof value === "number" && acceptsFractions((properties as Readonly<Record<string, NumberSchema>>)[key]);
        return [key, isWeight ? value !== 0 : value];
      });
      return [name, costs];
    }),
  );
}

interface NumberSchema {
  readonly type?: string;
  readonly anyOf?: readonly NumberSchema[];
}

function acceptsFractions({ type, anyOf = [] }: NumberSchema = {}): boolean {
  return type === "number" || anyOf.some(acceptsFractions);
}

/** Everything that decides the texts of a run and their tokens. */
function formatData(config: RunConfig): string {
  const { task, data, textColumn, labelColumn, labelMap, skipBadRows, validationData, testData } = config;
  const { model, tokenization, normalize, maxLength, maxTrainSamples, maxValidationSamples, maxTestSamples } = config;
  return JSON.stringify([
    ...[task, data, textColumn, labelColumn, labelMap, skipBadRows, validationData, testData],
    ...[model, tokenization, normalize, maxLength, maxTrainSamples, maxValidationSamples, maxTestSamples],
  ]);
}

/** An estimate, and the range in which the true value probably is. */
interface TimeRange {
  readonly seconds: number;
  readonly low: number;
  readonly high: number;
}

/** The cost of a sweep's runs on this host, one after the other. */
export interface SweepEstimate extends TimeRange {
  readonly concurrentRuns: number;
  readonly diskBytes: number;
  /** Maximum memory of a run; null if too little was measured. */
  readonly memoryBytes: number | null;
  readonly device: string;
  /** The largest step that was measured. */
  readonly step: { readonly batchSize: number; readonly length: number };
  /** Parts that were not measured in time are scaled from the others. */
  readonly scaled: { readonly methods: readonly string[]; readonly data: readonly string[] };
}

/** The work of kinds of runs, and benchmarks by stack. */
export interface MeasuredCosts {
  readonly kinds: readonly RunKind[];
  readonly works: ReadonlyMap<RunKind, RunWork>;
  readonly benchmarks: ReadonlyMap<string, RunBenchmark>;
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

export function scaleCosts(
  costs: MeasuredCosts,
  { concurrentRuns, checkpoints }: { readonly concurrentRuns: number; readonly checkpoints: boolean },
): SweepEstimate {
  const { kinds, works, benchmarks } = costs;
  const times = new Map([...works].map(([kind, work]) => [kind, estimateKind(kind, work, costs)]));
  const typical = averageTimes(times);
  const sum = (key: keyof TimeRange): number =>
    kinds.reduce((total, kind) => total + kind.count * (times.get(kind) ?? typical)[key], 0);
  const counted = [...works.values()];
  const diskBytes = Math.max(...counted.map((work) => work.diskBytes));
  const modelBytes = 4 * Math.max(...counted.map(({ parameters }) => parameters));
  const numRuns = kinds.reduce((total, { count }) => total + count, 0);
  const largest = [...benchmarks.values()].map(({ steps }) => steps.at(-1)!).sort((a, b) => b.flops - a.flops)[0]!;
  const unmeasured = kinds.filter(({ stack }) => !benchmarks.has(stack));
  const unread = kinds.filter((kind) => !works.has(kind));
  return {
    seconds: sum("seconds"),
    low: sum("low"),
    high: sum("high"),
    concurrentRuns,
    // A finished run without checkpoints is little more than its model. A run in progress has
    // checkpoints.
    diskBytes: checkpoints ? diskBytes * numRuns : diskBytes + modelBytes * numRuns,
    memoryBytes: estimateMemory(counted, [...benchmarks.values()]),
    device: [...benchmarks.values()][0]!.device,
    step: { batchSize: largest.batchSize, length: largest.length },
    scaled: {
      methods: [...new Set(unmeasured.map(({ config }) => formatMethodNames(config)))],
      data: [...new Set(unread.map(({ config }) => formatDataName(config)))],
    },
  };
}

export function formatDataName({ task, data }: RunConfig): string {
  return task ?? basename(data ?? "");
}

/** The time of one run. Unmeasured methods are estimated from similar ones, or from all. */
function estimateKind(kind: RunKind, work: RunWork, { kinds, benchmarks }: MeasuredCosts): TimeRange {
  const own = benchmarks.get(kind.stack);
  const names = formatMethodNames(kind.config);
  const sameNames = new Set(
    kinds.filter(({ config }) => formatMethodNames(config) === names).map(({ stack }) => stack),
  );
  const similar = [...benchmarks].flatMap(([stack, benchmark]) => (sameNames.has(stack) ? [benchmark] : []));
  const used = own ? [own] : similar.length > 0 ? similar : [...benchmarks.values()];
  const fits = [...benchmarks.values()].flatMap(({ steps }) => (steps.length > 1 ? [fitStepTime(steps)] : []));
  const perStepGuess = fits.length > 0 ? Math.min(...fits.map(({ perStep }) => perStep)) : 0;
  const times = used.map((benchmark) => {
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
  return averageTimes(new Map(times.map((time) => [{ count: 1 }, time])));
}

/** The mean of the times of runs, and a range that contains all of theirs. */
function averageTimes(times: ReadonlyMap<Pick<RunKind, "count">, TimeRange>): TimeRange {
  const all = [...times];
  const count = all.reduce((sum, [kind]) => sum + kind.count, 0);
  return {
    seconds: all.reduce((sum, [kind, { seconds }]) => sum + kind.count * seconds, 0) / count,
    low: Math.min(...all.map(([, { low }]) => low)),
    high: Math.max(...all.map(([, { high }]) => high)),
  };
}

/** A parameter, its gradient and its two moments. */
const bytesPerParameter = 16;

/** The memory of the largest batch, extrapolated from the two largest measured steps. */
function estimateMemory(works: readonly RunWork[], benchmarks: readonly RunBenchmark[]): number | null {
  const tokens = Math.max(...works.map(({ maxBatchTokens }) => maxBatchTokens));
  const parameters = Math.max(...works.map((work) => work.parameters));
  const found = benchmarks.flatMap(({ steps, modelParameters }) => {
    const [last, before] = [steps.at(-1)!, steps.at(-2)];
    if (!before) return [];
    const lastTokens = last.batchSize * last.length;
    const bytesPerToken = (last.memoryBytes - before.memoryBytes) / (lastTokens - before.batchSize * before.length);
    const activations = bytesPerToken * Math.max(0, tokens - lastTokens);
    return [last.memoryBytes + activations + bytesPerParameter * Math.max(0, parameters - modelParameters)];
  });
  return found.length > 0 ? Math.round(Math.max(...found)) : null;
}
