import { setTimeout as delay } from "node:timers/promises";
import { type Model, tokenizeFor } from "../models/index.js";
import { type Placement, predictProbabilities } from "../train/index.js";

/** What a model says of a text (or pair). */
export interface Prediction<T> {
  readonly input: T;
  readonly label: string;
  /** By label, in the model's order. */
  readonly probabilities: Readonly<Record<string, number>>;
  /** True where the end of the text was cut. */
  readonly truncated: boolean;
}

export interface PredictOptions {
  /** Answer what is there when no more comes for a moment, for a source that someone types or another program writes. */
  readonly flushWhenIdle?: boolean;
}

/** Texts that are sorted by length together: enough to spare most padding, few enough to stay small. */
const windowSize = 512;
const idleMilliseconds = 20;

/** Classifies texts in the order they come, however many there are. */
export async function* predictTexts<T extends { readonly texts: readonly string[] }>(
  model: Model,
  inputs: AsyncIterable<T>,
  deviceConfig: Placement,
  options: PredictOptions = {},
): AsyncGenerator<Prediction<T>> {
  for await (const window of collectWindows(inputs, options.flushWhenIdle === true)) {
    const encoded = window.map((input) => tokenizeFor(model, input.texts));
    const rows = await predictProbabilities(model, model.weights, encoded, deviceConfig);
    for (const [i, input] of window.entries()) {
      const row = rows[i] as Float32Array;
      const probabilities = Object.fromEntries(model.labels.map((label, index) => [label, row[index] as number]));
      const label = model.labels[row.indexOf(Math.max(...row))] as string;
      yield { input, label, probabilities, truncated: encoded[i]?.truncated === true };
    }
  }
}

type Arrival<T> = IteratorResult<T> | { readonly done: true; readonly error: unknown };

async function* collectWindows<T>(inputs: AsyncIterable<T>, prompt: boolean): AsyncGenerator<T[]> {
  const source = inputs[Symbol.asyncIterator]();
  // It is asked ahead, so what goes wrong may come while a window is being answered: kept until its turn.
  const ask = (): Promise<Arrival<T>> => source.next().catch((error: unknown) => ({ done: true, error }));
  let window: T[] = [];
  let deadline: Promise<null> | null = null;
  for (let next = ask(); ; ) {
    const arrived: Arrival<T> | null = await (deadline ? Promise.race([next, deadline]) : next);
    if (arrived && !arrived.done) {
      window.push(arrived.value);
      next = ask();
      if (prompt) deadline ??= delay(idleMilliseconds, null);
    }
    if (window.length === windowSize || (window.length > 0 && (!arrived || arrived.done))) {
      yield window;
      window = [];
      deadline = null;
    }
    if (arrived && "error" in arrived) throw arrived.error;
    if (arrived?.done) return;
  }
}
