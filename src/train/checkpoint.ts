import { existsSync } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { messageOf } from "../errors.js";
import { readJson, sha256File, writeFileAtomic } from "../files.js";
import { openSafetensors } from "../models/safetensors.js";
import { writeSafetensors } from "../models/safetensors-writer.js";
import { free, fromBytes, keep, noGrad, type Tensor } from "../tensor/index.js";
import { validate } from "../validate.js";
import type { Named } from "./layer.js";

const bestSchema = z.object({ step: z.number(), value: z.number(), metrics: z.record(z.string(), z.number()) });

/** Where a run stands; with the tensors beside it, all that the next step depends on. */
const stateSchema = z.object({
  format: z.literal(1),
  /** Updates done. */
  step: z.number().int().nonnegative(),
  /** The update's place in the data: epoch, and updates done of it. */
  epoch: z.number().int().nonnegative(),
  inEpoch: z.number().int().nonnegative(),
  best: bestSchema.nullable(),
  /** Evaluations since the best one. */
  waited: z.number().int().nonnegative(),
  /** Bytes of events.jsonl and timings.jsonl that belong to the steps done. */
  eventBytes: z.number().int().nonnegative(),
  timingBytes: z.number().int().nonnegative(),
});
export type CheckpointState = z.output<typeof stateSchema>;

const fileSchema = z.object({ state: stateSchema, hashes: z.record(z.string(), z.string()) });

const prefix = "step-";
const nameOf = (step: number): string => `${prefix}${String(step).padStart(8, "0")}`;

/** Checkpoints of a run, one folder each. A folder appears whole or not at all: it is filled under another name and renamed. */
export class Checkpoints {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  path(step: number): string {
    return join(this.#folder, nameOf(step));
  }

  /** Writes a checkpoint: groups of tensors, a file each, then the state with the files' hashes. */
  async save(state: CheckpointState, groups: Readonly<Record<string, Named>>): Promise<void> {
    const target = this.path(state.step);
    if (existsSync(target)) return;
    const temporary = join(this.#folder, `.writing-${process.pid}`);
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    const hashes: Record<string, string> = {};
    for (const [group, tensors] of Object.entries(groups)) {
      const file = `${group}.safetensors`;
      await writeSafetensors(
        join(temporary, file),
        [...tensors].map(([name, tensor]) => ({ name, dtype: "F32" as const, shape: tensor.shape, bytes: () => tensor.bytes() })),
      );
      hashes[file] = await sha256File(join(temporary, file));
    }
    await writeFileAtomic(join(temporary, "state.json"), JSON.stringify({ state, hashes }));
    await rename(temporary, target);
    const folder = await open(this.#folder);
    await folder.sync();
    await folder.close();
  }

  async steps(): Promise<number[]> {
    const names = existsSync(this.#folder) ? await readdir(this.#folder) : [];
    return names
      .filter((name) => name.startsWith(prefix))
      .map((name) => Number(name.slice(prefix.length)))
      .sort((a, b) => a - b);
  }

  /** The newest checkpoint that is whole; damaged ones are named and passed over. */
  async newest(notice: (message: string) => void): Promise<CheckpointState | null> {
    for (const step of (await this.steps()).reverse()) {
      try {
        return await this.#verify(step);
      } catch (error) {
        notice(`the checkpoint of step ${step} is damaged (${messageOf(error)}); using the one before`);
      }
    }
    return null;
  }

  async #verify(step: number): Promise<CheckpointState> {
    const path = join(this.path(step), "state.json");
    const { state, hashes } = validate(fileSchema, await readJson(path, "the checkpoint's state"), path);
    for (const [file, hash] of Object.entries(hashes)) {
      if ((await sha256File(join(this.path(step), file))) !== hash) throw new Error(`${file} does not have the content that was written`);
    }
    return state;
  }

  /** The tensors of one group of a checkpoint, on the CPU. They live until freed. */
  async read(step: number, group: string): Promise<Map<string, Tensor>> {
    const file = await openSafetensors(join(this.path(step), `${group}.safetensors`));
    try {
      return new Map(
        [...file.entries.values()].map((entry) => [entry.name, keep(fromBytes(file.readSync(entry.name), entry.shape, "float32"))]),
      );
    } finally {
      await file.close();
    }
  }

  /** Removes all but the newest `keepCount` and the one of `best`. */
  async prune(keepCount: number, best: number | null): Promise<void> {
    const steps = await this.steps();
    for (const step of steps.slice(0, -keepCount)) if (step !== best) await rm(this.path(step), { recursive: true, force: true });
  }
}

/** Copies saved values into tensors of the same names; every name must be there. */
export function restore(targets: Named, saved: Named, what: string): void {
  noGrad(() => {
    for (const [name, target] of targets) {
      const value = saved.get(name);
      if (!value) throw new Error(`the checkpoint holds no ${what} ${name}`);
      target.detach().copy_(value);
    }
  });
  free([...saved.values()]);
}
