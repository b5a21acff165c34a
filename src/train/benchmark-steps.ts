import { groupBy } from "../base/group-by.js";
import { countForwardFlops, predictProbabilities } from "../models/index.js";
import { free, getGpuIndex } from "../tensor/index.js";
import { nativeCuda } from "../tensor/native.js";
import { toHostBatch } from "./batch-transfer.js";
import { type Dataset, toDataset } from "./dataset.js";
import { evaluateModel } from "./evaluate.js";
import { createStepRunner, type StepRunner } from "./step-runner.js";
import { type ActiveTraining, countParameters, createTrainingContext } from "./training-context.js";
import type { TrainingJob } from "./training-method.js";

/** The cost of a training, measured on a few steps. All rates are seconds per FLOP of a forward pass. */
export interface StepBenchmark {
  readonly parameters: number;
  /** Steps of increasing size. The first one is always measured. */
  readonly steps: readonly {
    readonly batchSize: number;
    readonly length: number;
    readonly flops: number;
    readonly seconds: number;
    /** Peak memory so far: of the device, or of the process on a CPU. */
    readonly memoryBytes: number;
  }[];
  /** How often the methods pass over the training data before the first step. */
  readonly passes: number;
  readonly validateRate: number;
  readonly predictRate: number;
}

/** Steps smaller than those of the run, from which larger ones can be extrapolated. */
const shortLength = 32;
const shortBatchSizes = [2, 8, 32];
/** On a CPU, passes over the data before training have such batches. */
const dryRunBatchSize = 8;

/** Shorter steps are timed more than once, because they are noisy. */
const quickSeconds = 0.25;
const quickRepetitions = 3;
/** On a GPU, the first step of a shape runs eagerly and the second one is captured. */
const warmupSteps = { cpu: 1, gpu: 2 };

const minFraction = 0.01;
/** Steps whose kind is looked up. Their pattern repeats. */
const maxListedSteps = 100_000;

/** Measures steps of increasing size up to the largest batch. The weights stay the same. */
export async function benchmarkSteps(
  job: TrainingJob,
  options: {
    readonly stepsPerEpoch: number;
    /** Larger steps are only measured within this time. Default: up to the largest batch of the run. */
    readonly seconds?: number | undefined;
    readonly now?: () => number;
  },
): Promise<StepBenchmark> {
  const { stepsPerEpoch, seconds = Number.POSITIVE_INFINITY, now = () => performance.now() } = options;
  const { train, sizes } = createSteps(job);
  const isCpu = job.deviceConfig.device === "cpu";
  const { batchSize } = job.settings;
  const passes = new Set<string>();
  const training = await createTrainingContext({
    ...job,
    train,
    settings: {
      ...job.settings,
      batchSize: isCpu ? Math.min(dryRunBatchSize, batchSize) : batchSize,
      batchSampler: "shuffled",
    },
    dryRun: { stepsPerEpoch },
    onEvent(event) {
      if (event.type === "progress") passes.add(event.stage);
      else job.onEvent?.(event);
    },
  });
  const runner = createStepRunner(training);
  try {
    // The steps compute everything, but change no weights.
    training.optimizer.setLearningRateFactor(0);
    // Preparation takes as long as it does: with its time, only the smallest step would be measured.
    const deadline = now() + 1000 * seconds;
    const kinds = listStepKinds(training);
    const steps: StepBenchmark["steps"][number][] = [];
    for (const [i, batches] of sizes.entries()) {
      const flops = batches.reduce((sum, indices) => sum + countBatchFlops(job, train, indices), 0);
      const last = steps.at(-1);
      if (last && now() + 1000 * last.seconds * (flops / last.flops) * kinds.length > deadline) break;
      const warmups = isCpu && i > 0 ? 0 : warmupSteps[isCpu ? "cpu" : "gpu"];
      let mean = 0;
      for (const { stepIndex, fraction } of kinds) {
        const time = (): number => timeStep(training, runner, stepIndex, batches, now);
        for (let k = 0; k < warmups; k++) time();
        const times = [time()];
        while (times[0]! < quickSeconds && times.length < quickRepetitions) times.push(time());
        mean += fraction * times.sort((a, b) => a - b)[Math.floor(times.length / 2)]!;
        // Signals and timers get a turn.
        await new Promise(setImmediate);
      }
      const indices = batches.flatMap((batch) => [...batch]);
      const length = Math.max(...indices.map((index) => train.lengths[index]!));
      steps.push({ batchSize: indices.length, length, flops, seconds: mean, memoryBytes: readPeakMemory(job) });
    }
    // Metrics of methods can take longer than a step, so the texts are not those of the largest one.
    const evaluatedSize = Math.max(0, steps.length - 2);
    const items = sizes[evaluatedSize]!.flatMap((indices) => [...indices].map((index) => train.items[index]!));
    const measureRate = async (work: () => Promise<unknown>): Promise<number> => {
      const started = now();
      await work();
      return (now() - started) / 1000 / steps[evaluatedSize]!.flops;
    };
    const { model, deviceConfig } = job;
    const encodings = items.map(({ encoding }) => encoding);
    return {
      parameters: countParameters(training.parameters),
      steps,
      passes: passes.size,
      validateRate: job.validation ? await measureRate(() => evaluateModel(training, { ...train, items })) : 0,
      predictRate: await measureRate(() => predictProbabilities(model, model.weights, encodings, deviceConfig)),
    };
  } finally {
    runner.dispose();
    training.close();
  }
}

function createSteps(job: TrainingJob): { readonly train: Dataset; readonly sizes: readonly Int32Array[][] } {
  const { model, settings, train } = job;
  const { batchSize, gradientAccumulationSteps } = settings;
  const longest = [...train.items.keys()].sort((a, b) => train.lengths[b]! - train.lengths[a]!);
  const rows = Math.min(batchSize * gradientAccumulationSteps, longest.length);
  const complete = longest.slice(0, rows).map((index) => train.items[index]!);
  const numShort = Math.min(Math.max(...shortBatchSizes), longest.length);
  const examples = longest.slice(0, numShort).map((index) => train.items[index]!.example);
  const short = toDataset(
    { ...model, maxLength: Math.min(shortLength, model.maxLength) },
    // Methods read the texts, too.
    examples.map((example) => ({
      ...example,
      texts: example.texts.map((text) => shorten(text, example.texts.length)),
    })),
  );
  const items = [...short.items, ...complete];
  const range = (start: number, end: number): Int32Array =>
    Int32Array.from({ length: end - start }, (_, i) => start + i);
  const batches = Array.from({ length: Math.ceil(rows / batchSize) }, (_, i) =>
    range(numShort + i * batchSize, numShort + Math.min(rows, (i + 1) * batchSize)),
  );
  // A short step of all rows says nothing new if the texts are short.
  const isLong = train.lengths[longest[0]!]! > shortLength;
  const sizes = shortBatchSizes
    .filter((size) => size < rows || (size === rows && isLong))
    .map((size) => [range(0, size)]);
  return {
    train: { ...train, items, lengths: Int32Array.from(items, ({ encoding }) => encoding.ids.length) },
    sizes: [...sizes, batches],
  };
}

function shorten(text: string, numTexts: number): string {
  return text
    .split(" ")
    .slice(0, Math.floor(shortLength / numTexts))
    .join(" ");
}

function countBatchFlops({ model }: TrainingJob, { lengths }: Dataset, indices: Int32Array): number {
  const longest = indices.reduce((max, index) => Math.max(max, lengths[index]!), 0);
  return countForwardFlops(model.architecture.config, indices.length, longest);
}

/** One step of each kind of work, the most frequent kind first, and how frequent the kind is. */
function listStepKinds({ stack, totalSteps }: ActiveTraining): { stepIndex: number; fraction: number }[] {
  const listed = Array.from({ length: Math.min(totalSteps, maxListedSteps) }, (_, stepIndex) => stepIndex);
  const kinds = [...groupBy(listed, (stepIndex) => stack.getGraphKey(stepIndex)).values()];
  const [first, ...others] = kinds.sort((a, b) => b.length - a.length);
  const frequent = [first!, ...others.filter(({ length }) => length >= minFraction * listed.length)];
  const total = frequent.reduce((sum, { length }) => sum + length, 0);
  return frequent.map((steps) => ({ stepIndex: steps[0]!, fraction: steps.length / total }));
}

function timeStep(
  { job }: ActiveTraining,
  runner: StepRunner,
  stepIndex: number,
  batches: readonly Int32Array[],
  now: () => number,
): number {
  const started = now();
  const { values } = runner.runStep(
    stepIndex,
    batches.map((indices) => toHostBatch(job, indices)),
  );
  // Reading the values waits for the device.
  values.toFloat32Array();
  free(values);
  return (now() - started) / 1000;
}

function readPeakMemory({ deviceConfig: { device } }: TrainingJob): number {
  return device === "cpu"
    ? process.resourceUsage().maxRSS * 1024
    : nativeCuda().deviceMemory(getGpuIndex(device)).peakBytes;
}

/** The rate is at least this fraction of the one without a constant. */
const minRateFraction = 0.25;

/** Fits the time to the two largest steps. With one, the constant is the given one. */
export function fitStepTime(
  steps: StepBenchmark["steps"],
  perStep = 0,
): { readonly perStep: number; readonly rate: number } {
  const [last, before] = [steps.at(-1)!, steps.at(-2)];
  if (!before) {
    const constant = Math.min(perStep, last.seconds / 2);
    return { perStep: constant, rate: (last.seconds - constant) / last.flops };
  }
  const slope = (last.seconds - before.seconds) / (last.flops - before.flops);
  const proportional = last.seconds / last.flops;
  // Noise can make the larger step the faster one.
  const rate = Math.min(Math.max(slope, minRateFraction * proportional), proportional);
  return { perStep: last.seconds - rate * last.flops, rate };
}
