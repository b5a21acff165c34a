import { basename, dirname, join } from "node:path";
import { exists } from "../files.js";
import type { RunConfig } from "./config.js";
import { runFiles } from "./folder.js";
import { readRunConfig } from "./read-config.js";

/** A run that made a model. */
export interface RunOfModel {
  readonly folder: string;
  readonly config: RunConfig;
}

/** The run whose model a folder holds; null where the model came from elsewhere. */
export async function runOfModel(modelFolder: string): Promise<RunOfModel | null> {
  const folder = dirname(modelFolder);
  const file = join(folder, runFiles.config);
  if (basename(modelFolder) !== runFiles.model || !(await exists(file))) return null;
  return { folder, config: await readRunConfig({ file }) };
}
