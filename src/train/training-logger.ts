import { appendFileSync, closeSync, fstatSync, fsyncSync, ftruncateSync } from "node:fs";
import { UserError } from "../base/errors.js";
import { createFileError, openForAppending } from "../base/files.js";
import { free } from "../tensor/index.js";
import type { StepScalars } from "./optimizer-step.js";
import type { TrainingJob } from "./training-method.js";

/** A step whose numbers are still on the device. */
interface PendingStep {
  readonly step: number;
  readonly epoch: number;
  readonly learningRate: number;
  readonly scalars: StepScalars;
}

type TrainingEvent = Readonly<Record<string, unknown>>;

/** Writes events (identical for the same seed) and timings to two files, if there are any. */
export class TrainingLogger {
  readonly #events: JsonLinesFile | null;
  readonly #timings: JsonLinesFile | null;
  readonly #onEvent: ((event: TrainingEvent) => void) | undefined;
  readonly #pending: PendingStep[] = [];
  loss = Number.NaN;

  constructor(
    files: TrainingJob["files"],
    from: { readonly eventBytes: number; readonly timingBytes: number },
    onEvent?: (event: TrainingEvent) => void,
  ) {
    this.#events = files && new JsonLinesFile(files.events, from.eventBytes);
    this.#timings = files && new JsonLinesFile(files.timings, from.timingBytes);
    this.#onEvent = onEvent;
  }

  /** Takes ownership of a step's numbers. Returns how many steps are pending. */
  enqueue(pending: PendingStep): number {
    return this.#pending.push(pending);
  }

  writeTiming(timing: TrainingEvent): void {
    this.#timings?.write(timing);
  }

  writeEvent(event: TrainingEvent): void {
    this.#events?.write(event);
    this.#onEvent?.(event);
  }

  /** Writes the events of pending steps. A loss that is not finite ends the run. */
  flush(): void {
    for (const { step, epoch, learningRate, scalars } of this.#pending.splice(0)) {
      const values = scalars.values.toFloat32Array();
      free(scalars.values);
      const numbers = Object.fromEntries(scalars.names.map((name, i) => [name, values[i] as number]));
      this.loss = numbers.loss ?? Number.NaN;
      // A gradient that is not finite spoils the weights one step before the loss shows it.
      if (!Number.isFinite(this.loss) || !Number.isFinite(numbers.gradientNorm ?? 0)) {
        const facts = scalars.names.map((name) => `${name} ${numbers[name]}`);
        throw createDivergenceError(step, facts.join(", "));
      }
      this.writeEvent({ step, epoch, learningRate, ...numbers });
    }
  }

  sync(): { readonly eventBytes: number; readonly timingBytes: number } {
    this.#events?.sync();
    this.#timings?.sync();
    return { eventBytes: this.#events?.bytes ?? 0, timingBytes: this.#timings?.bytes ?? 0 };
  }

  close(): void {
    for (const { scalars } of this.#pending) free(scalars.values);
    this.#events?.close();
    this.#timings?.close();
  }
}

export function createDivergenceError(step: number, facts: string): UserError {
  return new UserError(
    `Training diverged at step ${step} (${facts}). Earlier checkpoints are still valid. Start a new run ` +
      "with a lower train.learningRate, some train.warmupRatio, or train.maxGradNorm: 1.",
  );
}

/** A file of JSON lines that a resumed run truncates to the length of its checkpoint. */
class JsonLinesFile {
  readonly #path: string;
  readonly #file: number;
  bytes: number;

  constructor(path: string, keepBytes: number) {
    this.#path = path;
    this.#file = this.#try(() => openForAppending(path));
    const { size } = fstatSync(this.#file);
    if (size < keepBytes) {
      closeSync(this.#file);
      throw new UserError(
        `${path} is shorter than its checkpoint recorded, so it was modified. Start over in a new folder.`,
      );
    }
    if (size > keepBytes) this.#try(() => ftruncateSync(this.#file, keepBytes));
    this.bytes = keepBytes;
  }

  write(event: TrainingEvent): void {
    const line = Buffer.from(`${JSON.stringify(event)}\n`);
    this.#try(() => appendFileSync(this.#file, line));
    this.bytes += line.length;
  }

  sync(): void {
    this.#try(() => fsyncSync(this.#file));
  }

  close(): void {
    closeSync(this.#file);
  }

  #try<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw createFileError(error, this.#path, "write");
    }
  }
}
