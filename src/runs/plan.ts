import type { LoadOptions } from "../models/index.js";
import { free, gpuIndex } from "../tensor/index.js";
import { nativeCuda } from "../tensor/native.js";
import { measureUpdates, probabilitiesOf, toDataset } from "../train/index.js";
import type { RunConfig } from "./config.js";
import { neededBytes } from "./fine-tune.js";
import { jobOf, type OpenedRun, openRunConfig } from "./open.js";

/** What a run would be and cost, measured on a few real updates; nothing is written. */
export interface Plan {
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

export async function planRun(config: RunConfig, notice: (message: string) => void, onDownload?: LoadOptions["onProgress"]): Promise<Plan> {
  const opened = await openRunConfig(config, notice, onDownload);
  try {
    const { machine, examples, model } = opened;
    const measured = await measureUpdates(jobOf(opened, { folder: null, resume: false, watch: { onNotice: notice } }));
    const every = config.train.evaluateEvery ?? measured.stepsPerEpoch;
    const evaluations = examples.selection === null ? 0 : Math.ceil(measured.steps / every);
    const evaluated = (examples.selection?.length ?? 0) * evaluations + examples.report.length;
    return {
      config,
      device: machine.device,
      precision: machine.precision,
      threads: machine.threads,
      examples: { train: examples.train.length, selection: examples.selection?.length ?? 0, report: examples.report.length },
      parameters: measured.parameters,
      steps: measured.steps,
      evaluations,
      memoryBytes:
        machine.device === "cpu" ? process.resourceUsage().maxRSS * 1024 : nativeCuda().deviceMemory(gpuIndex(machine.device)).peakBytes,
      diskBytes: neededBytes({ model, config }, false),
      secondsPerStep: measured.secondsPerStep,
      seconds: {
        prepare: measured.prepareSeconds,
        train: measured.secondsPerStep * measured.steps,
        evaluate: (await secondsPerText(opened)) * evaluated,
      },
    };
  } finally {
    free(opened.model.weights);
  }
}

/** Texts that are classified to see how long one takes. */
const trialTexts = 64;

async function secondsPerText({ model, examples, machine }: OpenedRun): Promise<number> {
  const stride = Math.ceil(examples.report.length / trialTexts);
  const { items } = toDataset(
    model,
    examples.report.filter((_, i) => i % stride === 0),
  );
  const started = performance.now();
  await probabilitiesOf(
    model,
    model.weights,
    items.map((item) => item.encoded),
    machine,
  );
  return (performance.now() - started) / 1000 / items.length;
}
