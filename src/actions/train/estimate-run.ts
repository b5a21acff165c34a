import type { Callbacks } from "../../base/events.js";
import { predictProbabilities } from "../../models/index.js";
import type { RunConfig, RunConfigInput } from "../../settings/config.js";
import { type ResolvedRun, resolveRun, userModules } from "../../settings/read-config.js";
import { free, getGpuIndex } from "../../tensor/index.js";
import { nativeCuda } from "../../tensor/native.js";
import { benchmarkSteps, toDataset } from "../../train/index.js";
import { type PreparedRun, prepareRun } from "./prepare-run.js";
import { deferTextAttack, estimateDiskBytes } from "./train.js";

/**
 * What a run will cost, measured on a few optimizer steps.
 *
 *     const { seconds, memoryBytes }: RunEstimate = await estimateRun(config);
 */
export interface RunEstimate {
  readonly config: RunConfig;
  readonly device: string;
  readonly precision: string;
  readonly threads: number;
  readonly examples: { readonly train: number; readonly validation: number; readonly test: number };
  /** Trained parameters. */
  readonly parameters: number;
  readonly steps: number;
  readonly evaluations: number;
  /** Peak memory of the device, or of the process on a CPU. */
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly secondsPerStep: number;
  readonly seconds: { readonly prepare: number; readonly train: number; readonly evaluate: number };
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

/** Estimates a run whose settings were checked. */
export async function estimateResolved(run: ResolvedRun, callbacks: Callbacks = {}): Promise<RunEstimate> {
  const { config } = run;
  const prepared = await prepareRun(run, callbacks);
  const { runtime, examples, job } = prepared;
  const { device, precision, threads } = runtime;
  try {
    const benchmark = await benchmarkSteps({
      ...job,
      files: null,
      resume: false,
      attackTexts: deferTextAttack(prepared, callbacks),
      onEvent: (event) => event.type === "warning" && callbacks.onEvent?.(event),
    });
    const evalSteps = config.train.evalSteps ?? benchmark.stepsPerEpoch;
    const evaluations = examples.validation === null ? 0 : Math.ceil(benchmark.steps / evalSteps);
    const evaluated = (examples.validation?.length ?? 0) * evaluations + examples.test.length;
    return {
      config,
      device,
      precision,
      threads,
      examples: {
        train: examples.train.length,
        validation: examples.validation?.length ?? 0,
        test: examples.test.length,
      },
      parameters: benchmark.parameters,
      steps: benchmark.steps,
      evaluations,
      memoryBytes:
        device === "cpu"
          ? process.resourceUsage().maxRSS * 1024
          : nativeCuda().deviceMemory(getGpuIndex(device)).peakBytes,
      diskBytes: estimateDiskBytes(prepared, false),
      secondsPerStep: benchmark.secondsPerStep,
      seconds: {
        prepare: benchmark.prepareSeconds,
        train: benchmark.secondsPerStep * benchmark.steps,
        evaluate: (await measureSecondsPerText(prepared)) * evaluated,
      },
    };
  } finally {
    free(job.model.weights);
  }
}

/** Texts classified to measure the time per text. */
const sampledTexts = 64;

async function measureSecondsPerText({ job: { model }, examples, runtime }: PreparedRun): Promise<number> {
  const stride = Math.ceil(examples.test.length / sampledTexts);
  const sample = examples.test.filter((_, i) => i % stride === 0);
  const encodings = toDataset(model, sample).items.map(({ encoding }) => encoding);
  const started = performance.now();
  await predictProbabilities(model, model.weights, encodings, runtime);
  return (performance.now() - started) / 1000 / encodings.length;
}
