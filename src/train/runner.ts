import { isCudaOutOfMemory, UserError } from "../errors.js";
import { toModelInput } from "../models/index.js";
import { type AdamW, clipGradNorm_, globalNorm } from "../nn/index.js";
import { type DType, keep, noGrad, scope, stack as stackTensors, type Tensor, tensor } from "../tensor/index.js";
import { createBatchContext } from "./batch-context.js";
import type { MethodStack } from "./method-stack.js";
import type { RandomStreams } from "./random-streams.js";
import { averageGradients, sumLosses } from "./standard-fine-tuning.js";
import type {
  Batch,
  Gradients,
  HostBatch,
  HostTensor,
  NamedTensors,
  OptimizerStep,
  TrainingContext,
} from "./training-method.js";

/** The numbers that an update leaves for the events, on the device until they are read. */
export interface StepScalars {
  readonly names: readonly string[];
  readonly values: Tensor; // [names]
}

/** Runs updates: batches in, changed parameters and numbers for the events out. */
export interface StepRunner {
  runStep(number: number, batches: readonly HostBatch[]): StepScalars;
  /** Frees what it keeps between updates. */
  dispose(): void;
}

export interface RunnerContext {
  readonly run: TrainingContext;
  readonly stack: MethodStack;
  readonly streams: RandomStreams;
  readonly optimizer: AdamW;
  readonly computeDtype: DType;
}

/** Does what cannot be done over: changes the weights. */
export type ApplyUpdate = (change: () => void) => void;

/** Where memory ends in the middle of a change, half of the weights have moved: no smaller batch can mend that. */
export const applyImmediately: ApplyUpdate = (change) => {
  try {
    change();
  } catch (error) {
    if (!isCudaOutOfMemory(error)) throw error;
    throw new UserError(
      "the GPU's memory was used up while the weights were being changed, so this update is lost; what was saved before is good. " +
        "Go on with --resume on a GPU with more memory, or start anew with a smaller train.batchSize or a shorter maxLength",
      { cause: error },
    );
  }
};

/** Runs each update operator by operator. */
export function eagerRunner(context: RunnerContext): StepRunner {
  return {
    runStep: (number, batches) =>
      scope(() => {
        const onDevice = batches.map((host) => toBatch(context, host));
        return keep(runOptimizerStep(context, number, onDevice, applyImmediately));
      }),
    dispose() {},
  };
}

/** A batch's tensors, with what the layers add to it. */
export function toBatch(context: Pick<RunnerContext, "run" | "stack">, host: HostBatch): Batch {
  const { device } = context.run;
  const input = toModelInput(host.padded, device);
  const labels = tensor(getLabels(host), [host.items.length], { device });
  const extras = new Map<string, Tensor>();
  for (const [name, { values, shape }] of collateExtras(context.stack, host))
    extras.set(name, tensor(values, shape, { device }));
  return createBatch(host, input, labels, extras);
}

export function getLabels(host: HostBatch): Int32Array {
  return Int32Array.from(host.items, (item) => item.example.label);
}

export function collateExtras(stack: MethodStack, host: HostBatch): [string, HostTensor][] {
  return stack.methods.flatMap((layer) => Object.entries(layer.collate?.(host) ?? {}));
}

export function createBatch(host: HostBatch, input: Batch["input"], labels: Tensor, extras: NamedTensors): Batch {
  return {
    input,
    labels,
    batchSize: host.padded.batchSize,
    sequenceLength: host.padded.sequenceLength,
    microBatchIndex: host.microBatchIndex,
    getExtra(name) {
      const found = extras.get(name);
      if (!found) throw new Error(`no layer added ${name} to the batch`);
      return found;
    },
  };
}

interface MicroBatch {
  /** The batch of the update that it is (a part of). */
  readonly batchOffset: number;
  readonly weight: number;
}

/** The mean over an update's batches, each of which may have come in parts. */
function weighMicroBatches(batches: readonly Batch[]): MicroBatch[] {
  const rows: number[] = [];
  const steps = batches.map((batch) => {
    if (batch.microBatchIndex === 0) rows.push(0);
    rows[rows.length - 1]! += batch.batchSize;
    return rows.length - 1;
  });
  return batches.map((batch, i) => ({
    batchOffset: steps[i]!,
    weight: batch.batchSize / rows[steps[i]!]! / rows.length,
  }));
}

/** The gradients of a batch, or a part of one, and what its layers log: detached, so that its passes end with it. */
function computeMicroBatchGradients(
  context: RunnerContext,
  batch: Batch,
  step: number,
): { gradients: Gradients; logged: NamedTensors } {
  return scope(() => {
    const logged = new Map<string, Tensor>();
    const log = (name: string, value: Tensor): void => void logged.set(name, value.detach());
    const gradients = context.stack.gradients(createBatchContext({ ...context, log }, batch, step));
    const losses = new Map([...gradients.losses].map(([name, loss]) => [name, loss.detach()]));
    return { gradients: { ...gradients, losses }, logged };
  });
}

/** One update: gradients of the batches, clipped, selected, applied. Returns the numbers to log; nothing here waits for the device. */
export function runOptimizerStep(
  context: RunnerContext,
  number: number,
  batches: readonly Batch[],
  apply: ApplyUpdate,
): StepScalars {
  const { run, stack, streams, optimizer } = context;
  run.lowPrecisionWeights?.refresh();
  const logged = new Map<string, Tensor>();
  const log = (name: string, value: Tensor): void => void logged.set(name, value);
  // Counted by the setting, not by what this update has: the last one of an epoch may have fewer batches.
  const firstStep = number * run.settings.gradientAccumulationSteps;
  const pieces = weighMicroBatches(batches);
  const gradients = averageGradients(
    pieces.map(({ weight: share }) => share),
    (i) => {
      const piece = computeMicroBatchGradients(
        context,
        batches[i] as Batch,
        firstStep + (pieces[i] as MicroBatch).batchOffset,
      );
      for (const [name, value] of piece.logged) log(name, value);
      return piece.gradients;
    },
  );
  return noGrad(() => {
    const all = [...gradients.total.values()];
    const { maxGradNorm: clip } = run.settings;
    const norm = clip === null ? globalNorm(all) : clipGradNorm_(all, clip);
    const update: OptimizerStep = {
      run,
      stepIndex: number,
      gradients: gradients.total,
      auxiliaryGradients: gradients.auxiliary,
      optimizer,
      enterRandomStream: (...names) => streams.enter(firstStep, ["update", ...names]),
      log,
    };
    const selected = stack.transformUpdates(update);
    apply(() => {
      optimizer.update(selected);
      stack.afterStep(update);
    });
    const losses = new Map(gradients.losses);
    const scalars = new Map<string, Tensor>([
      ["loss", sumLosses(losses)],
      ...[...losses].map(([name, value]): [string, Tensor] => [`loss.${name}`, value]),
      ["gradientNorm", norm],
      ...logged,
    ]);
    return {
      names: [...scalars.keys()],
      values: stackTensors(
        [...scalars.values()].map((value) => value.detach().to("float32").reshape()),
        0,
      ),
    };
  });
}
