import { interruptedExitCode } from "./command.js";
import type { Io } from "./io.js";

/**
 * Signals that ask a program to stop: Ctrl-C, a scheduler or service manager, and a closed
 * terminal.
 */
const stopSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Calls the listener on each of these signals until the returned function is called. */
export function onStopSignals(listener: () => void): () => void {
  for (const signal of stopSignals) process.on(signal, listener);
  return () => {
    for (const signal of stopSignals) process.off(signal, listener);
  };
}

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

/** The first signal asks the run to save and stop. The second one ends the process. */
export function stopOnSignals(io: Io): { signal: AbortSignal; listen(): void; close(): void } {
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
      unlisten = onStopSignals(onSignal);
    },
    close: () => unlisten(),
  };
}
