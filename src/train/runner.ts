import { isShortOfGpuMemory, UserError } from "../errors.js";
import { toInput } from "../models/index.js";
import { type AdamW, clipGlobalNorm_, globalNorm } from "../nn/index.js";
import { type DataType, keep, noGrad, scope, stack as stackTensors, type Tensor, tensor } from "../tensor/index.js";
import { averaged, totalOf } from "./base.js";
import type { Batch, Gradients, HostBatch, HostTensor, Named, Run, Update } from "./layer.js";
import type { Stack } from "./stack.js";
import { openStep } from "./step.js";
import type { Streams } from "./streams.js";

/** The numbers that an update leaves for the events, on the device until they are read. */
export interface Scalars {
  readonly names: readonly string[];
  readonly values: Tensor; // [names]
}

/** Runs updates: batches in, changed parameters and numbers for the events out. */
export interface Runner {
  update(number: number, batches: readonly HostBatch[]): Scalars;
  /** Frees what it keeps between updates. */
  dispose(): void;
}

export interface RunnerContext {
  readonly run: Run;
  readonly stack: Stack;
  readonly streams: Streams;
  readonly optimizer: AdamW;
  readonly compute: DataType;
}

/** Does what cannot be done over: changes the weights. */
export type Apply = (change: () => void) => void;

/** Where memory ends in the middle of a change, half of the weights have moved: no smaller batch can mend that. */
export const applyNow: Apply = (change) => {
  try {
    change();
  } catch (error) {
    if (!isShortOfGpuMemory(error)) throw error;
    throw new UserError(
      "the GPU's memory was used up while the weights were being changed, so this update is lost; what was saved before is good. " +
        "Go on with --resume on a GPU with more memory, or start anew with a smaller train.batchSize or a shorter maxLength",
      { cause: error },
    );
  }
};

/** Runs each update operator by operator. */
export function eagerRunner(context: RunnerContext): Runner {
  return {
    update: (number, batches) =>
      scope(() => {
        const onDevice = batches.map((host) => toBatch(context, host));
        return keep(runUpdate(context, number, onDevice, applyNow));
      }),
    dispose() {},
  };
}

/** A batch's tensors, with what the layers add to it. */
export function toBatch(context: Pick<RunnerContext, "run" | "stack">, host: HostBatch): Batch {
  const { device } = context.run;
  const input = toInput(host.padded, device);
  const labels = tensor(labelsOf(host), [host.items.length], { device });
  const extras = new Map<string, Tensor>();
  for (const [name, { values, shape }] of collate(context.stack, host)) extras.set(name, tensor(values, shape, { device }));
  return batchOf(host, input, labels, extras);
}

export function labelsOf(host: HostBatch): Int32Array {
  return Int32Array.from(host.items, (item) => item.example.label);
}

export function collate(stack: Stack, host: HostBatch): [string, HostTensor][] {
  return stack.layers.flatMap((layer) => Object.entries(layer.collate?.(host) ?? {}));
}

export function batchOf(host: HostBatch, input: Batch["input"], labels: Tensor, extras: Named): Batch {
  return {
    input,
    labels,
    rows: host.padded.rows,
    length: host.padded.length,
    part: host.part,
    extra(name) {
      const found = extras.get(name);
      if (!found) throw new Error(`no layer added ${name} to the batch`);
      return found;
    },
  };
}

interface Piece {
  /** The batch of the update that it is (a part of). */
  readonly step: number;
  readonly share: number;
}

/** The mean over an update's batches, each of which may have come in parts. */
function piecesOf(batches: readonly Batch[]): Piece[] {
  const rows: number[] = [];
  const steps = batches.map((batch) => {
    if (batch.part === 0) rows.push(0);
    rows[rows.length - 1]! += batch.rows;
    return rows.length - 1;
  });
  return batches.map((batch, i) => ({ step: steps[i]!, share: batch.rows / rows[steps[i]!]! / rows.length }));
}

/** The gradients of a batch, or a part of one, and what its layers log: detached, so that its passes end with it. */
function gradientsOfPiece(context: RunnerContext, batch: Batch, step: number): { gradients: Gradients; logged: Named } {
  return scope(() => {
    const logged = new Map<string, Tensor>();
    const log = (name: string, value: Tensor): void => void logged.set(name, value.detach());
    const gradients = context.stack.gradients(openStep({ ...context, log }, batch, step));
    const losses = new Map([...gradients.losses].map(([name, loss]) => [name, loss.detach()]));
    return { gradients: { ...gradients, losses }, logged };
  });
}

/** One update: gradients of the batches, clipped, selected, applied. Returns the numbers to log; nothing here waits for the device. */
export function runUpdate(context: RunnerContext, number: number, batches: readonly Batch[], apply: Apply): Scalars {
  const { run, stack, streams, optimizer } = context;
  run.shadow?.refresh();
  const logged = new Map<string, Tensor>();
  const log = (name: string, value: Tensor): void => void logged.set(name, value);
  // Counted by the setting, not by what this update has: the last one of an epoch may have fewer batches.
  const firstStep = number * run.settings.accumulate;
  const pieces = piecesOf(batches);
  const gradients = averaged(
    pieces.map(({ share }) => share),
    (i) => {
      const piece = gradientsOfPiece(context, batches[i] as Batch, firstStep + (pieces[i] as Piece).step);
      for (const [name, value] of piece.logged) log(name, value);
      return piece.gradients;
    },
  );
  return noGrad(() => {
    const all = [...gradients.total.values()];
    const { clip } = run.settings;
    const norm = clip === null ? globalNorm(all) : clipGlobalNorm_(all, clip);
    const update: Update = {
      run,
      number,
      gradients: gradients.total,
      others: gradients.others,
      optimizer,
      random: (...names) => streams.enter(firstStep, ["update", ...names]),
      log,
    };
    const selected = stack.select(update);
    apply(() => {
      optimizer.update(selected);
      stack.after(update);
    });
    const losses = new Map(gradients.losses);
    const scalars = new Map<string, Tensor>([
      ["loss", totalOf(losses)],
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
