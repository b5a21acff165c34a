import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { getErrorMessage } from "../errors.js";
import { createFileError, getErrorCode, readJson, sha256File, syncFolder, writeFileAtomic } from "../files.js";
import { openSafetensors } from "../models/safetensors.js";
import { writeSafetensors } from "../models/safetensors-writer.js";
import { free, fromBytes, keep, noGrad, type Tensor } from "../tensor/index.js";
import { validate } from "../validate.js";
import type { NamedTensors } from "./training-method.js";

const bestSchema = z.object({ step: z.number(), value: z.number(), metrics: z.record(z.string(), z.number()) });

/** Where a run stands; with the tensors beside it, all that the next step depends on. */
const stateSchema = z.object({
  format: z.literal(1),
  /** Updates done. */
  step: z.number().int().nonnegative(),
  /** The update's place in the data: epoch, and updates done of it. */
  epoch: z.number().int().nonnegative(),
  inEpoch: z.number().int().nonnegative(),
  /** The step of the last evaluation that was finished. */
  evaluated: z.number().int().nonnegative(),
  best: bestSchema.nullable(),
  /** Evaluations since the best one. */
  waited: z.number().int().nonnegative(),
  /** Bytes of events.jsonl and timings.jsonl that belong to the steps done. */
  eventBytes: z.number().int().nonnegative(),
  timingBytes: z.number().int().nonnegative(),
});
export type CheckpointState = z.output<typeof stateSchema>;

const fileSchema = z.object({ state: stateSchema, hashes: z.record(z.string(), z.string()) });

const checkpointPrefix = "step-";
/** How a folder is called while it is filled. */
const temporaryPrefix = ".writing-";
const formatCheckpointName = (step: number): string => `${checkpointPrefix}${String(step).padStart(8, "0")}`;

/** Checkpoints of a run, one folder each. A folder appears whole or not at all: it is filled under another name and renamed. */
export class CheckpointStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  getPath(step: number): string {
    return join(this.#folder, formatCheckpointName(step));
  }

  /** Writes a checkpoint: groups of tensors, a file each, then the state with the files' hashes. One of the same step stays as it is. */
  async save(state: CheckpointState, groups: Readonly<Record<string, NamedTensors>>): Promise<void> {
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
    groups: Readonly<Record<string, NamedTensors>>,
  ): Promise<void> {
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    const hashes: Record<string, string> = {};
    for (const [group, tensors] of Object.entries(groups)) {
      const file = `${group}.safetensors`;
      await writeSafetensors(
        join(temporary, file),
        [...tensors].map(([name, tensor]) => ({
          name,
          dtype: toSafetensorsDtype(tensor),
          shape: tensor.shape,
          bytes: () => tensor.toBytes(),
        })),
      );
      hashes[file] = await sha256File(join(temporary, file));
    }
    await writeFileAtomic(join(temporary, "state.json"), JSON.stringify({ state, hashes }));
  }

  async listSteps(): Promise<number[]> {
    const names = existsSync(this.#folder) ? await readdir(this.#folder) : [];
    return names
      .filter((name) => name.startsWith(checkpointPrefix))
      .map((name) => Number(name.slice(checkpointPrefix.length)))
      .sort((a, b) => a - b);
  }

  /**
   * The newest checkpoint that is whole, the one of its best step too. Damaged ones are named and removed, as is all of them where
   * the run starts anew: what comes after will be written again.
   */
  async findNewest(resume: boolean, warn: (message: string) => void): Promise<CheckpointState | null> {
    await this.#removeUnfinished();
    for (const step of (await this.listSteps()).reverse()) {
      try {
        if (resume) return await this.#verifyWithBest(step);
      } catch (error) {
        warn(`the checkpoint of step ${step} is damaged and not used: ${getErrorMessage(error)}`);
      }
      await rm(this.getPath(step), { recursive: true, force: true });
    }
    return null;
  }

  /** What a killed process left half-written. */
  async #removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.#folder))
      if (name.startsWith(temporaryPrefix)) await rm(join(this.#folder, name), { recursive: true, force: true });
  }

  async #verifyWithBest(step: number): Promise<CheckpointState> {
    const state = await this.#verify(step);
    if (state.best && state.best.step !== step) await this.#verify(state.best.step);
    return state;
  }

  async #verify(step: number): Promise<CheckpointState> {
    const { state, hashes } = await this.#readState(step);
    for (const [file, hash] of Object.entries(hashes)) {
      if ((await sha256File(join(this.getPath(step), file))) !== hash)
        throw new Error(`${file} does not have the content that was written`);
    }
    return state;
  }

  async #readState(step: number): Promise<z.output<typeof fileSchema>> {
    const path = join(this.getPath(step), "state.json");
    return validate(fileSchema, await readJson(path, "the checkpoint's state"), path);
  }

  /** The tensors of one group of a checkpoint, on the CPU. They live until freed. */
  async readTensors(step: number, group: string): Promise<Map<string, Tensor>> {
    const file = await openSafetensors(join(this.getPath(step), `${group}.safetensors`));
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

  /** Removes all but the newest `keepCount` and those that are the best of one of them: without it none of them is whole. */
  async prune(keepCount: number): Promise<void> {
    const steps = await this.listSteps();
    const bests = new Set(await Promise.all(steps.slice(-keepCount).map((step) => this.#readBestStep(step))));
    for (const step of steps.slice(0, -keepCount))
      if (!bests.has(step)) await rm(this.getPath(step), { recursive: true, force: true });
  }

  /** The best step that a checkpoint names; null where there is none, or its state cannot be read. */
  async #readBestStep(step: number): Promise<number | null> {
    return this.#readState(step).then(
      ({ state }) => state.best?.step ?? null,
      () => null,
    );
  }
}

/** Parameters and moments are float32, masks of elements bool. */
function toSafetensorsDtype(tensor: Tensor): "F32" | "BOOL" {
  if (tensor.dtype !== "float32" && tensor.dtype !== "bool")
    throw new Error(`a checkpoint holds float32 and bool, not ${tensor.dtype}`);
  return tensor.dtype === "bool" ? "BOOL" : "F32";
}

/** Copies saved values into tensors of the same names; every name must be there. */
export function restoreTensors(targets: NamedTensors, saved: NamedTensors, what: string): void {
  noGrad(() => {
    for (const [name, target] of targets) {
      const value = saved.get(name);
      if (!value) throw new Error(`the checkpoint holds no ${what} ${name}`);
      target.copy_(value);
    }
  });
  free([...saved.values()]);
}
