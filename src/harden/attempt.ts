import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { readJsonIfExists, writeJson } from "../base/read-json.js";
import { sha256Hex } from "../base/sha256.js";
import { hashExamples } from "../runs/environment.js";
import { getRunPath, hardenFile, isRunFolder } from "../runs/run-files.js";
import type { HardenPlan } from "./plan.js";
import type { HardenData } from "./read-data.js";
import { sizesSchema } from "./sizes.js";

/** What the folder was started with. The same command continues it. */
const attemptSchema = z.object({
  /** SHA-256 of all texts. */
  data: z.string(),
  minutes: z.number().nullable(),
  sizes: sizesSchema,
  /** Settings of both trainings and the method, as one text. */
  training: z.string(),
  numExamples: z.number(),
});
export type Attempt = z.output<typeof attemptSchema>;

export const modelNames = ["standard", "robust"] as const;
export type ModelName = (typeof modelNames)[number];

function getAttemptPath(out: string): string {
  return join(out, hardenFile);
}

export function readAttempt(out: string): Promise<Attempt | null> {
  return readJsonIfExists(getAttemptPath(out), attemptSchema, "the plan");
}

export function writeAttempt(out: string, attempt: Attempt): Promise<void> {
  return writeJson(getAttemptPath(out), attempt);
}

/** Removes a folder in which nothing was trained, because the first steps could not be measured. */
export async function removeWithoutAttempt(out: string): Promise<void> {
  if (!existsSync(getAttemptPath(out))) await rm(out, { recursive: true, force: true });
}

export function hashData({ examples }: HardenData): string {
  return sha256Hex(Object.values(examples).map(hashExamples).join("\n"));
}

/** The settings of both trainings as one text, without those that only say where they are computed. */
export function formatTraining({ settings, method, continuesStandard }: HardenPlan): string {
  const { device: _, precision: __, threads: ___, ...rest } = settings;
  return JSON.stringify([rest, method, ...(continuesStandard ? ["continues the standard model"] : [])]);
}

export function listTrained(out: string): Set<ModelName> {
  return new Set(modelNames.filter((name) => existsSync(getRunPath(join(out, name), "results"))));
}

export async function checkNew(out: string): Promise<void> {
  for (const name of modelNames)
    if (await isRunFolder(join(out, name)))
      throw new UserError(
        `${join(out, name)} already contains a run. Leave out --no-resume to continue it, or choose a different --out.`,
      );
}

/**
 * Makes room for work that differs from what the folder was started with. An attempt that did not
 * finish is moved into a hidden folder, so that it cannot stop the next one. A finished one stays.
 */
export async function setAside(out: string, difference: string, callbacks: Callbacks): Promise<void> {
  const found = modelNames.filter((name) => existsSync(join(out, name)));
  if (found.length === 0) return;
  if (listTrained(out).size === modelNames.length)
    throw new UserError(`${out} has models that were trained with ${difference}. Choose a different --out.`);
  let number = 1;
  while (existsSync(join(out, `.earlier-${number}`))) number++;
  const aside = join(out, `.earlier-${number}`);
  await mkdir(aside);
  for (const name of found) await rename(join(out, name), join(aside, name));
  warn(callbacks, `${out} has an unfinished attempt with ${difference}. It was moved to ${aside}.`);
}
