import { accessSync, constants, existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, exists, readJson, writeFileAtomic } from "../files.js";
import { acquireLock } from "../lock.js";
import { validate } from "../validate.js";

/** The files of a run folder. */
export const runFiles = {
  config: "config.yaml",
  environment: "environment.json",
  events: "events.jsonl",
  timings: "timings.jsonl",
  checkpoints: "checkpoints",
  model: "model",
  results: "results.json",
  status: "status.json",
  tensorboard: "tensorboard",
  lock: "run.lock",
} as const;

/** What the other files do not say of a run: how many steps it will have, and why it failed, if it did. */
const statusSchema = z.object({ steps: z.number().int().nonnegative(), failure: z.string().nullable() });
export type RunStatus = z.output<typeof statusSchema>;

export async function readStatus(folder: string): Promise<RunStatus | null> {
  const path = join(folder, runFiles.status);
  return (await exists(path)) ? validate(statusSchema, await readJson(path, "the run's status"), path) : null;
}

export async function writeStatus(folder: string, status: RunStatus): Promise<void> {
  await writeFileAtomic(join(folder, runFiles.status), `${JSON.stringify(status)}\n`);
}

/** Opens a run folder for writing; two runs into one folder are refused, as is a folder that holds another run. */
export function lockRunFolder(folder: string, resume: boolean): { readonly wasEmpty: boolean; release(): void } {
  if (!resume && existsSync(join(folder, runFiles.events)))
    throw new UserError(`${folder} holds a run already: give --resume to go on with it, or another --out`);
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw createFileError(error, folder, "write the run folder");
  }
  const release = acquireLock(
    join(folder, runFiles.lock),
    (owner) => new UserError(`${folder}: ${owner} is writing there; wait for it, or give another --out`),
  );
  removeTemporaryFiles(folder);
  return {
    wasEmpty: listRunFiles(folder).length === 0,
    release() {
      release();
      // A run that could not begin leaves no trace.
      if (readdirSync(folder).length === 0) rmdirSync(folder);
    },
  };
}

/** Takes away what a run wrote into an empty folder before it could begin. */
export function removeRunFiles(folder: string): void {
  for (const name of listRunFiles(folder)) rmSync(join(folder, name), { recursive: true, force: true });
}

function listRunFiles(folder: string): string[] {
  return readdirSync(folder).filter((name) => name !== runFiles.lock);
}

/** Files that a killed process had not yet renamed into place. */
function removeTemporaryFiles(folder: string): void {
  for (const name of readdirSync(folder)) if (/^\..*\.tmp$/.test(name)) rmSync(join(folder, name), { force: true });
}

/** Refuses a run that its disk cannot hold, before any time is spent on it. */
export function checkDiskSpace(folder: string, neededBytes: number): void {
  const { bavail, bsize } = statfsSync(folder);
  const available = bavail * bsize;
  if (available >= neededBytes) return;
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;
  throw new UserError(
    `${folder}: its disk has ${gigabytes(available)} free, the run needs about ${gigabytes(neededBytes)}; ` +
      "free some, keep fewer checkpoints (--save-total-limit 1), or give another --out",
  );
}
