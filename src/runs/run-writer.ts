import { existsSync, readdirSync, renameSync, rmdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { UserError } from "../base/errors.js";
import { createFileError, exists, sha256File, writeFileAtomic } from "../base/files.js";
import { formatBytes } from "../base/format.js";
import { lockFolder } from "../base/lock.js";
import { writeJson } from "../base/read-json.js";
import type { RunConfig } from "../settings/config.js";
import { type InMemoryExample, writeExamplesFile } from "../tasks/custom-task.js";
import type { Environment } from "./environment.js";
import type { Results } from "./results.js";
import {
  files,
  formatConfig,
  freshDataFile,
  getRunPath,
  type RunFile,
  removeOptimizerState,
  removeRunFiles,
} from "./run-files.js";
import { RunFolder, type RunStatus } from "./run-folder.js";

/** The writing side of a run folder: one process at a time. */
export class RunWriter {
  readonly folder: string;
  /** True if the folder had no content when it was locked. */
  readonly wasEmpty: boolean;
  readonly #unlock: () => void;

  constructor(folder: string, resume: boolean) {
    this.folder = folder;
    if (!resume && existsSync(this.path("events")))
      throw new UserError(
        `${folder} already contains a run. Pass --resume to continue it, or choose a different --out.`,
      );
    this.#unlock = lockFolder(folder, files.lock, "write the run folder");
    this.wasEmpty = this.#contents().length === 0;
  }

  path(file: RunFile): string {
    return getRunPath(this.folder, file);
  }

  /** The run as it is on disk; null before its config is written. */
  async read(): Promise<RunFolder | null> {
    return (await exists(this.path("config"))) ? RunFolder.open(this.folder) : null;
  }

  async writeData(examples: readonly InMemoryExample[]): Promise<string> {
    const [path, fresh] = [this.path("data"), join(this.folder, freshDataFile)];
    await writeExamplesFile(fresh, examples);
    const hash = await sha256File(fresh);
    if ((await exists(path)) && (await sha256File(path)) !== hash) {
      await rm(fresh);
      throw new UserError(
        `${this.folder}: --resume: the examples changed since the run started. Start over with a different --out.`,
      );
    }
    await rename(fresh, path);
    return hash;
  }

  async writeConfig(config: RunConfig): Promise<void> {
    await writeFileAtomic(this.path("config"), formatConfig(this.folder, config));
  }

  async writeEnvironment(environment: Environment): Promise<void> {
    await writeJson(this.path("environment"), environment);
  }

  /** Writes how far the run is. It is small, and the first step waits for it. */
  writeStatus(status: RunStatus): void {
    const path = this.path("status");
    const temporary = join(this.folder, `.${basename(path)}.tmp`);
    try {
      writeFileSync(temporary, `${JSON.stringify(status)}\n`);
      renameSync(temporary, path);
    } catch (error) {
      throw createFileError(error, path, "write");
    }
  }

  /** Writes the status of a failed run. A full disk may be the failure, so it hides no other error. */
  tryWriteStatus(status: RunStatus): void {
    try {
      this.writeStatus(status);
    } catch {
      // The failure itself is thrown.
    }
  }

  async writeResults(results: Results): Promise<void> {
    await writeJson(this.path("results"), results);
  }

  async removeUnneeded({ saveTotalLimit, keepOptimizerState }: RunConfig["train"]): Promise<void> {
    if (saveTotalLimit === 0) await removeRunFiles(this.folder, ["checkpoints"]);
    else if (!keepOptimizerState) await removeOptimizerState(this.folder);
  }

  /** Rejects a run that the disk cannot hold, before any time is spent on it. */
  checkDiskSpace(neededBytes: number): void {
    const { bavail, bsize } = statfsSync(this.folder);
    const available = bavail * bsize;
    if (available >= neededBytes) return;
    throw new UserError(
      `${this.folder}: the disk has ${formatBytes(available)} free, the run needs about ${formatBytes(neededBytes)}. ` +
        "Free some space, keep fewer checkpoints (--save-total-limit 1), or choose a different --out.",
    );
  }

  /** Removes what a run wrote into an empty folder before it could start. */
  removeAll(): void {
    const own: readonly string[] = [...Object.values(files), freshDataFile];
    for (const name of this.#contents())
      if (own.includes(name)) rmSync(join(this.folder, name), { recursive: true, force: true });
  }

  /** Unlocks the folder. A run that could not start leaves no folder. */
  release(): void {
    this.#unlock();
    if (readdirSync(this.folder).length === 0) rmdirSync(this.folder);
  }

  #contents(): string[] {
    return readdirSync(this.folder).filter((name) => name !== files.lock);
  }
}
