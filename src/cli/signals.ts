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
