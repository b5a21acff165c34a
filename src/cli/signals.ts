import { interruptedExitCode, onStopSignals } from "../base/processes.js";
import type { Io } from "./io.js";

/** Waits for a signal to stop. The next signal ends the process. */
export function waitForSignal(onStop: () => void): Promise<void> {
  return new Promise((resolve) => {
    let isStopping = false;
    onStopSignals(() => {
      if (isStopping) process.exit(interruptedExitCode);
      isStopping = true;
      onStop();
      resolve();
    });
  });
}

/** The signals that stop some work, from `listen` to `close`. */
export interface StopSignals {
  readonly signal: AbortSignal;
  listen(): void;
  close(): void;
}

/** The first signal asks the work to save and stop. The second one ends the process. */
export function stopOnSignals(io: Io): StopSignals {
  const controller = new AbortController();
  let unlisten = (): void => undefined;
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(interruptedExitCode);
    io.stderr.write("\nStopping after this step. Repeat to stop immediately.\n");
    controller.abort();
  };
  return {
    signal: controller.signal,
    listen() {
      unlisten();
      unlisten = onStopSignals(onSignal);
    },
    close: () => unlisten(),
  };
}

/** Stops work that keeps what is done, from its start. */
export function listenForStop(io: Io): StopSignals {
  const stop = stopOnSignals(io);
  stop.listen();
  return stop;
}
