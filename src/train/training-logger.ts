import { join } from "node:path";
import { UserError } from "../errors.js";
import { free } from "../tensor/index.js";
import { EventLog } from "./event-log.js";
import type { StepScalars } from "./runner.js";

/** How far the two logs of a run reach. */
export interface LogBytes {
  readonly eventBytes: number;
  readonly timingBytes: number;
}

/** An update's place and rate, and its numbers while they are still on the device. */
interface PendingStep {
  readonly step: number;
  readonly epoch: number;
  readonly rate: number;
  readonly scalars: StepScalars;
}

export type TrainingEvent = Readonly<Record<string, unknown>>;

/** Keeps a run's events (what happened, the same for the same seed) and timings (how long it took) in two files, or in none. */
export class TrainingLogger {
  readonly #events: EventLog | null;
  readonly #timings: EventLog | null;
  readonly #onEvent: ((event: TrainingEvent) => void) | undefined;
  readonly #pending: PendingStep[] = [];
  /** The newest loss that was read from the device. */
  loss = Number.NaN;

  constructor(folder: string | null, from: LogBytes, onEvent?: (event: TrainingEvent) => void) {
    this.#events = folder === null ? null : new EventLog(join(folder, "events.jsonl"), from.eventBytes);
    this.#timings = folder === null ? null : new EventLog(join(folder, "timings.jsonl"), from.timingBytes);
    this.#onEvent = onEvent;
  }

  /** Takes over an update's numbers, to be read with those of its neighbours; returns how many wait. */
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

  /** Writes the events of the updates that wait; one that is no number ends the run here, before any checkpoint of it. */
  flush(): void {
    for (const { step, epoch, rate, scalars } of this.#pending.splice(0)) {
      const values = scalars.values.toFloat32Array();
      free(scalars.values);
      const numbers = Object.fromEntries(scalars.names.map((name, i) => [name, values[i] as number]));
      this.loss = numbers.loss ?? Number.NaN;
      // A gradient that is no number spoils the weights one step before the loss shows it.
      if (!Number.isFinite(this.loss) || !Number.isFinite(numbers.gradientNorm ?? 0))
        throw createDivergenceError(step, numbers);
      this.writeEvent({ step, epoch, rate, ...numbers });
    }
  }

  /** Makes sure that all so far survives a power cut. */
  sync(): LogBytes {
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

function createDivergenceError(step: number, numbers: Readonly<Record<string, number>>): UserError {
  const terms = Object.entries(numbers).map(([name, value]) => `${name} ${value}`);
  return new UserError(
    `training diverged at step ${step}: ${terms.join(", ")}. Checkpoints from before it stay good. ` +
      "Try a lower train.learningRate, some train.warmupRatio, or train.maxGradNorm: 1, in another run folder.",
  );
}
