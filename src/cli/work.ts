import type { TemperEvent } from "../base/events.js";
import { type Io, write } from "./io.js";
import { printJson } from "./output.js";
import type { StopSignals } from "./signals.js";

interface Display {
  onEvent(event: TemperEvent): void;
  end(): void;
}

interface WorkOptions<Shown extends Display, Result> {
  readonly display: Shown;
  readonly json: boolean | undefined;
  /** The signals that stop the work. Those of other work end the process. */
  readonly stop?: StopSignals | null;
  /** The part of the result that is printed as JSON. Default: all. */
  select?(result: Result): unknown;
}

/** Does the work of a command: its progress and warnings are on stderr, and its result is on stdout. */
export async function runWork<Shown extends Display, Result>(
  io: Io,
  { display, json, stop = null, select = (result) => result }: WorkOptions<Shown, Result>,
  work: (callbacks: Shown & { readonly signal?: AbortSignal }) => Promise<Result>,
  format: (result: Result) => string | Promise<string>,
): Promise<void> {
  try {
    const result = await work({ ...display, ...(stop && { signal: stop.signal }) });
    display.end();
    await (json ? printJson(io, select(result)) : write(io.stdout, await format(result)));
  } finally {
    display.end();
    stop?.close();
  }
}
