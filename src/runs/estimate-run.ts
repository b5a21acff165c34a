import type { LoadModelOptions } from "../models/index.js";
import { free, gpuIndex } from "../tensor/index.js";
import { nativeCuda } from "../tensor/native.js";
import { measureUpdates, predictProbabilities, toDataset } from "../train/index.js";
import type { RunConfig } from "./config.js";
import { estimateDiskBytes } from "./fine-tune.js";
import { createTrainingJob, type PreparedRun, prepareRun } from "./prepare-run.js";

/** What a run would be and cost, measured on a few real updates; nothing is written. */
export interface RunEstimate {
  readonly config: RunConfig;
  readonly device: string;
  readonly precision: string;
  readonly threads: number;
  readonly examples: { readonly train: number; readonly selection: number; readonly report: number };
  /** Numbers that are trained. */
  readonly parameters: number;
  readonly steps: number;
  readonly evaluations: number;
  /** The most that the device needs, or the process on a CPU. */
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly secondsPerStep: number;
  readonly seconds: { readonly prepare: number; readonly train: number; readonly evaluate: number };
}

export async function estimateRun(
  config: RunConfig,
  warn: (message: string) => void,
  onDownload?: LoadModelOptions["onProgress"],
): Promise<RunEstimate> {
  const preparedRun = await prepareRun(config, warn, onDownload);
  try {
    const { runtimeConfig, examples, model } = preparedRun;
    const measured = await measureUpdates(
      createTrainingJob(preparedRun, { folder: null, resume: false, callbacks: { onWarning: warn } }),
    );
    const every = config.train.evalSteps ?? measured.stepsPerEpoch;
    const evaluations = examples.selection === null ? 0 : Math.ceil(measured.steps / every);
    const evaluated = (examples.selection?.length ?? 0) * evaluations + examples.report.length;
    return {
      config,
      device: runtimeConfig.device,
      precision: runtimeConfig.precision,
      threads: runtimeConfig.threads,
      examples: {
        train: examples.train.length,
        selection: examples.selection?.length ?? 0,
        report: examples.report.length,
      },
      parameters: measured.trainableParameters,
      steps: measured.steps,
      evaluations,
      memoryBytes:
        runtimeConfig.device === "cpu"
          ? process.resourceUsage().maxRSS * 1024
          : nativeCuda().deviceMemory(gpuIndex(runtimeConfig.device)).peakBytes,
      diskBytes: estimateDiskBytes({ model, config }, false),
      secondsPerStep: measured.secondsPerStep,
      seconds: {
        prepare: measured.prepareSeconds,
        train: measured.secondsPerStep * measured.steps,
        evaluate: (await measureSecondsPerText(preparedRun)) * evaluated,
      },
    };
  } finally {
    free(preparedRun.model.weights);
  }
}

/** Texts that are classified to see how long one takes. */
const benchmarkTexts = 64;

async function measureSecondsPerText({ model, examples, runtimeConfig }: PreparedRun): Promise<number> {
  const stride = Math.ceil(examples.report.length / benchmarkTexts);
  const { items } = toDataset(
    model,
    examples.report.filter((_, i) => i % stride === 0),
  );
  const started = performance.now();
  await predictProbabilities(
    model,
    model.weights,
    items.map((item) => item.encoding),
    runtimeConfig,
  );
  return (performance.now() - started) / 1000 / items.length;
}
