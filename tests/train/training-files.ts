import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TrainingJob } from "../../src/train/index.js";

/** The files of a training in a folder, named as in a run folder. */
export function trainingFiles(folder: string): NonNullable<TrainingJob["files"]> {
  mkdirSync(folder, { recursive: true });
  const at = (name: string): string => join(folder, name);
  return {
    ...{ events: at("events.jsonl"), timings: at("timings.jsonl") },
    ...{ checkpoints: at("checkpoints"), adapter: at("adapter") },
  };
}
