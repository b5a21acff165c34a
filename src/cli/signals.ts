/** What asks a program to stop: Ctrl-C, a scheduler or a service manager, and a terminal that is gone. */
const stopSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Calls back on every one of them; returns what ends that. */
export function onStopSignals(listener: () => void): () => void {
  for (const signal of stopSignals) process.on(signal, listener);
  return () => {
    for (const signal of stopSignals) process.off(signal, listener);
  };
}
