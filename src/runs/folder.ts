import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { codeOf, fileError } from "../files.js";

/** The files of a run folder. */
export const runFiles = {
  config: "config.yaml",
  environment: "environment.json",
  events: "events.jsonl",
  timings: "timings.jsonl",
  checkpoints: "checkpoints",
  model: "model",
  results: "results.json",
  lock: "run.lock",
} as const;

/** Opens a run folder for writing; two runs into one folder are refused, as is a folder that holds another run. */
export function lockRunFolder(folder: string, resume: boolean, neededBytes: number): { release(): void } {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw fileError(error, folder, "make the run folder");
  }
  const lock = join(folder, runFiles.lock);
  const owner = lockOwner(lock);
  if (owner !== null) throw new UserError(`${folder}: a run of process ${owner} is writing there; wait for it, or give another --out`);
  if (!resume && existsSync(join(folder, runFiles.events)))
    throw new UserError(`${folder} holds a run already: give --resume to go on with it, or another --out`);
  const free = statfsSync(folder);
  const available = free.bavail * free.bsize;
  if (available < neededBytes)
    throw new UserError(
      `${folder}: its disk has ${gigabytes(available)} free, the run needs about ${gigabytes(neededBytes)}; free some, or give another --out`,
    );
  try {
    const file = openSync(lock, "w");
    writeSync(file, String(process.pid));
    closeSync(file);
  } catch (error) {
    throw fileError(error, lock, "write the run folder");
  }
  return { release: () => rmSync(lock, { force: true }) };
}

/** The living process that holds a lock; a dead one's lock is no lock. */
function lockOwner(lock: string): number | null {
  if (!existsSync(lock)) return null;
  const owner = Number(readFileSync(lock, "utf8"));
  if (!Number.isInteger(owner) || owner <= 0 || owner === process.pid) return null;
  try {
    process.kill(owner, 0);
    return owner;
  } catch (error) {
    return codeOf(error) === "EPERM" ? owner : null;
  }
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
