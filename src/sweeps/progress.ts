import { open } from "node:fs/promises";
import { join } from "node:path";
import type { RunEvent } from "../runs/read-events.js";
import { readStatus, runFiles } from "../runs/run-folder.js";

/** How far a run is, by what its folder says: the same for a run of ours and for one on another machine. */
export interface RunProgress {
  readonly step: number;
  readonly steps: number;
  readonly loss: number | null;
}

const tailBytes = 4096;

/** Null before its first step. Reads the end of the events only: it is asked every second. */
export async function readRunProgress(folder: string): Promise<RunProgress | null> {
  try {
    const status = await readStatus(folder);
    const file = await open(join(folder, runFiles.events), "r");
    try {
      const { size } = await file.stat();
      const from = Math.max(0, size - tailBytes);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
      // The last line may be half written, the first half read.
      const lines = buffer.toString("utf8", 0, bytesRead).split("\n").slice(0, -1);
      const event = JSON.parse(lines.at(-1) ?? "") as RunEvent;
      return {
        step: event.step,
        steps: status?.steps ?? event.step,
        loss: typeof event.loss === "number" ? event.loss : null,
      };
    } finally {
      await file.close();
    }
  } catch {
    return null;
  }
}
