import { free } from "../tensor/index.js";
import { toHostBatch } from "./batch-transfer.js";
import { createStepRunner } from "./create-step-runner.js";
import { countParameters, createTrainingContext } from "./training-context.js";
import type { TrainingJob } from "./training-method.js";

/** The cost of a training, measured on a few real steps. */
export interface StepBenchmark {
  readonly steps: number;
  readonly stepsPerEpoch: number;
  readonly parameters: number;
  readonly secondsPerStep: number;
  /** Time of the methods' passes over the data before training, extrapolated from a few batches. */
  readonly prepareSeconds: number;
}

/**
 * The number of timed steps, spread over the lengths of the batches. Slow steps need fewer
 * repetitions.
 */
const benchmarkStepCounts = { quick: 5, slow: 3, slowSeconds: 2 };

/**
 * Runs a few steps of a job. It changes the model's weights and nothing else. The batch that needs
 * the most memory runs first.
 */
export async function benchmarkSteps(job: TrainingJob): Promise<StepBenchmark> {
  const preparation = createStopwatch();
  const training = await createTrainingContext({
    ...job,
    dryRun: true,
    onEvent(event) {
      if (event.type === "progress") preparation.onProgress(event.stage, event.done, event.total);
      else job.onEvent?.(event);
    },
  });
  const runner = createStepRunner(training);
  try {
    const estimateCost = (batches: readonly Int32Array[]): number =>
      batches.reduce(
        (sum, batch) => sum + batch.length * batch.reduce((max, i) => Math.max(max, job.train.lengths[i] ?? 0), 0),
        0,
      );
    const byCost = training.getEpochBatches(0).sort((a, b) => estimateCost(b) - estimateCost(a));
    const pickQuantiles = (count: number): Int32Array[][] =>
      Array.from({ length: count }, (_, i) => byCost[Math.round((i / (count - 1)) * (byCost.length - 1))]!);
    const timeStep = (stepIndex: number, batches: readonly Int32Array[]): number => {
      const started = performance.now();
      const { values } = runner.runStep(
        stepIndex,
        batches.map((indices) => toHostBatch(job, indices)),
      );
      // Reading the values waits for the device.
      values.toFloat32Array();
      free(values);
      return (performance.now() - started) / 1000;
    };
    training.optimizer.setLearningRateFactor(1);
    // The first step includes one-time work. It is only counted if it is slow, so that the work
    // hardly matters.
    const first = timeStep(0, byCost[0]!);
    const isSlow = first > benchmarkStepCounts.slowSeconds;
    const seconds: number[] = isSlow ? [first] : [];
    const timedSteps = isSlow
      ? pickQuantiles(benchmarkStepCounts.slow).slice(1)
      : pickQuantiles(benchmarkStepCounts.quick);
    for (const [i, batches] of timedSteps.entries()) {
      seconds.push(timeStep(i + 1, batches));
      await new Promise(setImmediate);
    }
    return {
      steps: training.totalSteps,
      stepsPerEpoch: training.stepsPerEpoch,
      parameters: countParameters(training.parameters),
      secondsPerStep: meanOverQuantiles(seconds),
      prepareSeconds: preparation.estimateSeconds(),
    };
  } finally {
    runner.dispose();
    training.close();
  }
}

/**
 * The mean of values at evenly spaced quantiles by the trapezoid rule: both ends have half the
 * weight.
 */
function meanOverQuantiles(values: readonly number[]): number {
  const ends = ((values[0] ?? 0) + (values.at(-1) ?? 0)) / 2;
  return (values.slice(1, -1).reduce((sum, value) => sum + value, 0) + ends) / (values.length - 1);
}

/** Times work that ends early and estimates how long all of it would take. */
function createStopwatch(): {
  onProgress(label: string, done: number, total: number): void;
  estimateSeconds(): number;
} {
  const timers = new Map<string, { firstDone: number; started: number; now: number; done: number; total: number }>();
  return {
    onProgress(label, done, total) {
      const now = performance.now();
      const timer = timers.get(label);
      if (timer) Object.assign(timer, { now, done });
      else timers.set(label, { firstDone: done, started: now, now, done, total });
    },
    estimateSeconds: () =>
      [...timers.values()].reduce(
        (sum, { firstDone, started, now, done, total }) =>
          sum + (done > firstDone ? ((now - started) / 1000 / (done - firstDone)) * total : 0),
        0,
      ),
  };
}
