import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { getErrorMessage } from "../errors.js";
import { createFileError, getErrorCode, readJson, sha256File, syncFolder, writeFileAtomic } from "../files.js";
import { openSafetensors } from "../models/safetensors.js";
import { toSafetensorsTensor, writeSafetensors } from "../models/safetensors-writer.js";
import { free, fromBytes, keep, noGrad, type Tensor } from "../tensor/index.js";
import { validate } from "../validate.js";
import type { NamedTensors } from "./training-method.js";

const bestSchema = z.object({ step: z.number(), value: z.number(), metrics: z.record(z.string(), z.number()) });

const countSchema = z.number().int().nonnegative();

/**
 * The progress of a run. With the tensors of the checkpoint, the next step depends on nothing else.
 */
const stateSchema = z.object({
  format: z.literal(2),
  /** Optimizer steps done. */
  step: countSchema,
  epoch: countSchema,
  /** Optimizer steps done in this epoch. */
  stepInEpoch: countSchema,
  /** The step of the last finished evaluation. */
  lastEvaluatedStep: countSchema,
  best: bestSchema.nullable(),
  evaluationsSinceBest: countSchema,
  /** Bytes of events.jsonl and timings.jsonl that belong to these steps. */
  eventBytes: countSchema,
  timingBytes: countSchema,
});
export type CheckpointState = z.output<typeof stateSchema>;

const fileSchema = z.object({ state: stateSchema, hashes: z.record(z.string(), z.string()) });

const checkpointPrefix = "step-";
/** Prefix of a folder that is still being written. */
const temporaryPrefix = ".writing-";

/**
 * The checkpoints of a run, one folder each. A folder is written under a temporary name and then
 * renamed, so it is always complete.
 */
export class CheckpointStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  getPath(step: number): string {
    return join(this.#folder, `${checkpointPrefix}${String(step).padStart(8, "0")}`);
  }

  /**
   * Writes one file per group of tensors, then the state with their hashes. An existing checkpoint
   * of this step stays.
   */
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
      const entries = [...tensors].map(([name, tensor]) => toSafetensorsTensor(name, tensor));
      await writeSafetensors(join(temporary, file), entries);
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
   * Finds the newest checkpoint that is intact together with the checkpoint of its best step.
   * Damaged checkpoints are reported and removed. Without `resume`, all are removed.
   */
  async findNewest(resume: boolean, warn: (message: string) => void): Promise<CheckpointState | null> {
    // Remove what a killed process left unfinished.
    for (const name of await readdir(this.#folder))
      if (name.startsWith(temporaryPrefix)) await rm(join(this.#folder, name), { recursive: true, force: true });
    for (const step of (await this.listSteps()).reverse()) {
      try {
        if (resume) return await this.#verifyWithBest(step);
      } catch (error) {
        warn(`Ignoring the damaged checkpoint of step ${step}: ${getErrorMessage(error)}`);
      }
      await rm(this.getPath(step), { recursive: true, force: true });
    }
    return null;
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
        throw new Error(`the content of ${file} does not match its hash`);
    }
    return state;
  }

  async #readState(step: number): Promise<z.output<typeof fileSchema>> {
    const path = join(this.getPath(step), "state.json");
    return validate(fileSchema, await readJson(path, "the checkpoint state"), path);
  }

  /** Reads one group of tensors of a checkpoint onto the CPU. The caller frees them. */
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

  /**
   * Keeps the newest `keepCount` checkpoints and the best ones that they refer to; removes the
   * others.
   */
  async prune(keepCount: number): Promise<void> {
    const steps = await this.listSteps();
    const bestSteps = new Set(await Promise.all(steps.slice(-keepCount).map((step) => this.#readBestStep(step))));
    for (const step of steps.slice(0, -keepCount))
      if (!bestSteps.has(step)) await rm(this.getPath(step), { recursive: true, force: true });
  }

  /** The best step of a checkpoint; null if there is none or the state cannot be read. */
  async #readBestStep(step: number): Promise<number | null> {
    return this.#readState(step).then(
      ({ state }) => state.best?.step ?? null,
      () => null,
    );
  }
}

/**
 * Copies saved values into the tensors of the same names and frees the saved ones. `kind` is for
 * errors.
 */
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
