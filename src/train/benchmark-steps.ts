import { free } from "../tensor/index.js";
import { toHostBatch } from "./host-batch.js";
import type { TrainingJob } from "./job.js";
import { prepareTraining } from "./prepare-training.js";

/** What a few real updates cost. */
export interface StepBenchmark {
  readonly steps: number;
  readonly stepsPerEpoch: number;
  /** Numbers that are trained. */
  readonly trainableParameters: number;
  readonly secondsPerStep: number;
  /** Of the layers' own passes over the data before training, reckoned from a few batches. */
  readonly prepareSeconds: number;
}

/** Updates that are timed, spread over the lengths that occur: fewer where one takes long, and tells more. */
const benchmarkStepCounts = { quick: 5, slow: 3, slowSeconds: 2 };

/** Runs a few updates of a job and leaves nothing behind but changed weights. The longest batches come first: they need most memory. */
export async function benchmarkSteps(job: TrainingJob): Promise<StepBenchmark> {
  const preparation = createStopwatch();
  const training = await prepareTraining(
    { ...job, dryRun: true, callbacks: { ...job.callbacks, onProgress: preparation.onWork } },
    null,
  );
  try {
    const { run, runner, context, stepsPerEpoch: updatesPerEpoch } = training;
    const estimateCost = (batches: readonly Int32Array[]): number =>
      batches.reduce(
        (sum, batch) => sum + batch.length * batch.reduce((most, i) => Math.max(most, job.train.lengths[i] ?? 0), 0),
        0,
      );
    const byCost = training.getEpochBatches(0).sort((a, b) => estimateCost(b) - estimateCost(a));
    const quantiles = (count: number): Int32Array[][] =>
      Array.from(
        { length: count },
        (_, i) => byCost[Math.round((i / (count - 1)) * (byCost.length - 1))] as Int32Array[],
      );
    const timeStep = (number: number, batches: readonly Int32Array[]): number => {
      const started = performance.now();
      const hosts = batches.map((batch) =>
        toHostBatch(job.train, batch, job.model.tokenizer.special.padId, job.deviceConfig.device),
      );
      const { values } = runner.runStep(number, hosts);
      // Reading waits for the device.
      values.toFloat32Array();
      free(values);
      return (performance.now() - started) / 1000;
    };
    context.optimizer.setLearningRateFactor(1);
    // The first update also pays for what happens once, which is little beside a slow one: that counts, and is not done again.
    const first = timeStep(0, byCost[0] as Int32Array[]);
    const slow = first > benchmarkStepCounts.slowSeconds;
    const seconds: number[] = slow ? [first] : [];
    for (const [i, batches] of (slow
      ? quantiles(benchmarkStepCounts.slow).slice(1)
      : quantiles(benchmarkStepCounts.quick)
    ).entries()) {
      seconds.push(timeStep(i + 1, batches));
      await new Promise(setImmediate);
    }
    return {
      steps: run.totalSteps,
      stepsPerEpoch: updatesPerEpoch,
      trainableParameters: [...run.parameters.values()].reduce((sum, tensor) => sum + tensor.numel, 0),
      secondsPerStep: meanOverQuantiles(seconds),
      prepareSeconds: preparation.seconds(),
    };
  } finally {
    training.close();
  }
}

/** The mean of values at evenly spaced quantiles, by the trapezoid rule: the two ends stand for half as many. */
function meanOverQuantiles(values: readonly number[]): number {
  const ends = ((values[0] ?? 0) + (values.at(-1) ?? 0)) / 2;
  return (values.slice(1, -1).reduce((sum, value) => sum + value, 0) + ends) / (values.length - 1);
}

/** Times pieces of work that end early, and reckons how long the whole of each would take. */
function createStopwatch(): { onWork(label: string, done: number, total: number): void; seconds(): number } {
  const pieces = new Map<string, { from: number; at: number; last: number; done: number; total: number }>();
  return {
    onWork(label, done, total) {
      const now = performance.now();
      const piece = pieces.get(label);
      if (piece) Object.assign(piece, { last: now, done });
      else pieces.set(label, { from: done, at: now, last: now, done, total });
    },
    seconds: () =>
      [...pieces.values()].reduce(
        (sum, { from, at, last, done, total }) =>
          sum + (done > from ? ((last - at) / 1000 / (done - from)) * total : 0),
        0,
      ),
  };
}
