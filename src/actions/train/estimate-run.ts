import type { Callbacks } from "../../base/events.js";
import { countModelParameters } from "../../models/index.js";
import type { RunConfig, RunConfigInput } from "../../settings/config.js";
import { type ResolvedRun, resolveRun, userModules } from "../../settings/read-config.js";
import type { RuntimeConfig } from "../../settings/runtime-config.js";
import type { Example } from "../../tasks/index.js";
import { free } from "../../tensor/index.js";
import { benchmarkSteps, fitStepTime, type StepBenchmark } from "../../train/index.js";
import { prepareRun } from "./prepare-run.js";
import { countWork, type RunWork } from "./run-work.js";
import { deferTextAttack } from "./train.js";

/**
 * The cost of a run, measured on a few optimizer steps.
 *
 *     const { seconds, memoryBytes }: RunEstimate = await estimateRun(config);
 */
export interface RunEstimate extends Pick<RunWork, "examples" | "steps" | "evaluations" | "diskBytes"> {
  readonly config: RunConfig;
  readonly device: string;
  readonly precision: string;
  readonly threads: number;
  readonly parameters: number;
  /** Peak memory of the device, or of the process on a CPU. */
  readonly memoryBytes: number;
  readonly secondsPerStep: number;
  readonly seconds: { readonly prepare: number; readonly train: number; readonly evaluate: number };
}

export interface RunBenchmark extends StepBenchmark, Pick<RuntimeConfig, "device" | "precision" | "threads"> {
  readonly modelParameters: number;
}

/**
 * Estimates time, memory and disk space of a run. Nothing is written.
 *
 *     const { seconds } = await estimateRun({ model: "roberta-base", task: "sst2" });
 *     console.log(`about ${Math.round(seconds.train / 60)} minutes`);
 */
export async function estimateRun(input: RunConfigInput, callbacks: Callbacks = {}): Promise<RunEstimate> {
  return estimateResolved(await resolveRun(input, userModules), callbacks);
}

export async function estimateResolved(run: ResolvedRun, callbacks: Callbacks = {}): Promise<RunEstimate> {
  const { works, sample } = await countWork([run], callbacks);
  const { examples, steps, stepsPerEpoch, evaluations, diskBytes } = works[0]!;
  const benchmark = await measureRun(run, { sample, stepsPerEpoch }, callbacks);
  const { device, precision, threads, parameters } = benchmark;
  const seconds = computeRunSeconds(works[0]!, benchmark);
  return {
    config: run.config,
    device,
    precision,
    threads,
    examples,
    parameters,
    steps,
    evaluations,
    memoryBytes: benchmark.steps.at(-1)!.memoryBytes,
    diskBytes,
    secondsPerStep: seconds.train / steps,
    seconds,
  };
}

export async function measureRun(
  run: ResolvedRun,
  options: { readonly sample: readonly Example[]; readonly stepsPerEpoch: number; readonly seconds?: number },
  callbacks: Callbacks = {},
): Promise<RunBenchmark> {
  const { sample, stepsPerEpoch, seconds } = options;
  const prepared = await prepareRun(run, callbacks, { train: sample, validation: sample, test: [] });
  const { runtime, job } = prepared;
  try {
    const attackTexts = deferTextAttack(prepared, callbacks);
    const measured = { ...job, files: null, resume: false, attackTexts, onEvent: callbacks.onEvent };
    const benchmark = await benchmarkSteps(measured, { stepsPerEpoch, seconds });
    const { device, precision, threads } = runtime;
    const modelParameters = countModelParameters(job.model.architecture);
    return { ...benchmark, device, precision, threads, modelParameters };
  } finally {
    free(job.model.weights);
  }
}

/** A pass over the data computes gradients, which takes about as long as so many forward passes. */
const forwardPasses = 3;

/**
 * The time of a run with the costs of a benchmark, which may be of another run. A benchmark with one
 * step does not know the constant part of a step, which is then `perStepGuess`.
 */
export function computeRunSeconds(
  work: RunWork,
  benchmark: RunBenchmark,
  perStepGuess?: number,
): RunEstimate["seconds"] {
  const fit = fitStepTime(benchmark.steps, perStepGuess);
  const { flops, steps, evaluations } = work;
  // The constant part is mostly the update of the parameters.
  const perStep = (fit.perStep * work.parameters) / benchmark.modelParameters;
  return {
    prepare: benchmark.passes * forwardPasses * benchmark.predictRate * flops.train,
    train: steps * (perStep + fit.rate * flops.step),
    evaluate: evaluations * benchmark.validateRate * flops.validation + benchmark.predictRate * flops.test,
  };
}
