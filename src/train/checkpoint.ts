import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { UserError } from "../base/errors.js";
import { createFileError, createFolder, getErrorCode, syncFolder } from "../base/files.js";
import { openSafetensors } from "../models/checkpoint/safetensors.js";
import { toSafetensorsTensor, writeSafetensors } from "../models/checkpoint/safetensors-writer.js";
import { free, fromBytes, keep, noGrad, type Tensor } from "../tensor/index.js";
import {
  type CheckpointGroup,
  type CheckpointState,
  checkpointGroups,
  DamagedCheckpoint,
  getGroupPath,
  readCheckpointState,
  verifyGroups,
  writeCheckpointState,
} from "./checkpoint-state.js";
import type { NamedTensors } from "./training-method.js";

const checkpointPrefix = "step-";
const checkpointPattern = /^step-\d{8,}$/;
const temporaryPrefix = ".writing-";
/** Prefix of a damaged checkpoint. It is never used and never removed. */
const damagedPrefix = "damaged-";

/** The checkpoints of a run, each renamed into place, so that it is always complete. */
export class CheckpointStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  getPath(step: number): string {
    return join(this.#folder, `${checkpointPrefix}${String(step).padStart(8, "0")}`);
  }

  /** Writes one file per group, then the state with their hashes. An existing checkpoint stays. */
  async save(state: CheckpointState, groups: Readonly<Record<CheckpointGroup, NamedTensors>>): Promise<void> {
    const target = this.getPath(state.step);
    if (existsSync(target)) return;
    const temporary = join(this.#folder, `${temporaryPrefix}${process.pid}`);
    try {
      await this.#writeFiles(temporary, state, groups);
      await rename(temporary, target);
      await syncFolder(this.#folder);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      throw getErrorCode(error) === null ? error : createFileError(error, target, "write the checkpoint");
    }
  }

  async #writeFiles(
    temporary: string,
    state: CheckpointState,
    groups: Readonly<Record<CheckpointGroup, NamedTensors>>,
  ): Promise<void> {
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    for (const group of checkpointGroups) {
      const entries = [...groups[group]].map(([name, tensor]) => toSafetensorsTensor(name, tensor));
      await writeSafetensors(getGroupPath(temporary, group), entries);
    }
    await writeCheckpointState(temporary, state);
  }

  async listSteps(): Promise<number[]> {
    const names = existsSync(this.#folder) ? await readdir(this.#folder) : [];
    return names
      .filter((name) => checkpointPattern.test(name))
      .map((name) => Number(name.slice(checkpointPrefix.length)))
      .sort((a, b) => a - b);
  }

  /**
   * Finds the newest intact checkpoint. A damaged one is reported and set aside, one that cannot be
   * read stops the run, and without `resume` there must be none.
   */
  async findNewest(resume: boolean, warn: (message: string) => void): Promise<CheckpointState | null> {
    createFolder(this.#folder);
    // Remove what a killed process left unfinished.
    for (const name of await readdir(this.#folder))
      if (name.startsWith(temporaryPrefix)) await rm(join(this.#folder, name), { recursive: true, force: true });
    const steps = (await this.listSteps()).reverse();
    if (!resume && steps.length > 0)
      throw new UserError(
        `${this.#folder} contains checkpoints of another run (up to step ${steps[0]}). ` +
          "Choose a different --out, or move them away.",
      );
    for (const step of steps) {
      try {
        return await this.#verifyWithBest(step);
      } catch (error) {
        if (!(error instanceof DamagedCheckpoint)) throw error;
        const aside = await this.#setAside(step);
        warn(`Ignoring the damaged checkpoint of step ${step}: ${error.message}. It is now ${aside}.`);
      }
    }
    return null;
  }

  async #verifyWithBest(step: number): Promise<CheckpointState> {
    const state = await this.#verify(step);
    if (state.best && state.best.step !== step) await this.#verify(state.best.step);
    return state;
  }

  async #verify(step: number): Promise<CheckpointState> {
    const { state, hashes } = await readCheckpointState(this.getPath(step), step);
    await verifyGroups(this.getPath(step), hashes);
    return state;
  }

  /** Renames a damaged checkpoint, so that it is neither used nor lost. Returns its new path. */
  async #setAside(step: number): Promise<string> {
    const path = join(this.#folder, `${damagedPrefix}${basename(this.getPath(step))}`);
    let free = path;
    for (let i = 2; existsSync(free); i++) free = `${path}-${i}`;
    await rename(this.getPath(step), free).catch((error: unknown) => {
      throw createFileError(error, this.getPath(step), "set aside the damaged checkpoint");
    });
    return free;
  }

  /** Reads one group of tensors of a checkpoint onto the CPU. The caller frees them. */
  async readTensors(step: number, group: CheckpointGroup): Promise<Map<string, Tensor>> {
    const file = await openSafetensors(getGroupPath(this.getPath(step), group));
    try {
      return new Map(
        [...file.entries.values()].map(({ name, shape, dtype }) => [
          name,
          keep(fromBytes(file.readSync(name), shape, dtype === "BOOL" ? "bool" : "float32")),
        ]),
      );
    } finally {
      await file.close();
    }
  }

  /**
   * Keeps the newest `keepCount` checkpoints and the best ones that they refer to; removes the
   * others. If one of them cannot be read now, its best one is unknown, and all stay.
   */
  async prune(keepCount: number): Promise<void> {
    const steps = await this.listSteps();
    const newest = steps.slice(-keepCount);
    const states = await Promise.all(
      newest.map((step) => readCheckpointState(this.getPath(step), step).catch(() => null)),
    );
    if (states.includes(null)) return;
    const bestSteps = new Set(states.map((read) => read?.state.best?.step));
    for (const step of steps.slice(0, -keepCount)) if (!bestSteps.has(step)) await this.#remove(step);
  }

  async removeOptimizerState(): Promise<void> {
    for (const path of await this.listOptimizerState()) await rm(path, { force: true });
  }

  async listOptimizerState(): Promise<string[]> {
    const groups = checkpointGroups.filter((group) => group !== "weights");
    const paths = (await this.listSteps()).flatMap((step) =>
      groups.map((group) => getGroupPath(this.getPath(step), group)),
    );
    return paths.filter((path) => existsSync(path));
  }

  /** Renames first: a kill in between must not leave a checkpoint without some of its files. */
  async #remove(step: number): Promise<void> {
    const temporary = join(this.#folder, `${temporaryPrefix}${basename(this.getPath(step))}`);
    await rename(this.getPath(step), temporary);
    await rm(temporary, { recursive: true, force: true });
  }
}

export function restoreTensors(targets: NamedTensors, saved: NamedTensors, kind: string): void {
  noGrad(() => {
    for (const [name, target] of targets) {
      const value = saved.get(name);
      if (!value) throw new Error(`The checkpoint has no ${kind} ${name}.`);
      target.copy_(value);
    }
  });
  free([...saved.values()]);
}
