/** Receives the numbers of a run while it trains. */
export interface Tracker {
  /** Called with each event of a run. It must not block. */
  writeEvent(event: Readonly<Record<string, unknown>>): void;
  /** Writes what is left. `status` says how the run ended. */
  close(status: "finished" | "failed" | "stopped"): void | Promise<void>;
}

/**
 * The numbers of an event under the names of Hugging Face: `train/loss`, `eval/accuracy`.
 */
export function listScalars(event: Readonly<Record<string, unknown>>): {
  readonly step: number;
  readonly values: [string, number][];
} {
  const { step, epoch: _epoch, evaluation, ...rest } = event;
  const group = evaluation === undefined ? "train" : "eval";
  const values = Object.entries((evaluation ?? rest) as Record<string, unknown>).flatMap(
    ([name, value]): [string, number][] => (typeof value === "number" ? [[`${group}/${name}`, value]] : []),
  );
  return { step: Number(step), values };
}
