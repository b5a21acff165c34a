import { basename, dirname, join } from "node:path";
import { exists } from "../files.js";
import type { RunConfig } from "./config.js";
import { readRunConfig } from "./read-config.js";
import { runFiles } from "./run-folder.js";

/** A run that made a model. */
export interface TrainingRun {
  readonly folder: string;
  readonly config: RunConfig;
}

/** The run whose model a folder holds; null where the model came from elsewhere. */
export async function findTrainingRun(modelFolder: string): Promise<TrainingRun | null> {
  const folder = dirname(modelFolder);
  const file = join(folder, runFiles.config);
  if (basename(modelFolder) !== runFiles.model || !(await exists(file))) return null;
  return { folder, config: await readRunConfig({ file }) };
}
