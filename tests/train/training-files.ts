import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TrainingFiles } from "../../src/train/index.js";

/** The files of a training in a folder, named as in a run folder. */
export function trainingFiles(folder: string): TrainingFiles {
  mkdirSync(folder, { recursive: true });
  const at = (name: string): string => join(folder, name);
  return {
    ...{ events: at("events.jsonl"), timings: at("timings.jsonl") },
    ...{ checkpoints: at("checkpoints"), adapter: at("adapter") },
  };
}
