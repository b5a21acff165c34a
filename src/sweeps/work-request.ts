import { createHash } from "node:crypto";
import { basename } from "node:path";
import { z } from "zod";
import { readJson } from "../files.js";
import { attackRequestSchema } from "../runs/attack.js";
import { runConfigSchema } from "../runs/config.js";
import { formatConfigIdentity } from "../runs/config-identity.js";
import { runtimeOptions } from "../runs/runtime-config.js";
import { readJsonIfExists, validate } from "../validate.js";

/** One request of a sweep as data. A worker process executes it. */
export const workRequestSchema = z.discriminatedUnion("kind", [
  /** Trains a run, or continues it. */
  z.strictObject({ kind: z.literal("train"), config: runConfigSchema, out: z.string() }),
  /** Measures what a run will cost. */
  z.strictObject({ kind: z.literal("estimate"), config: runConfigSchema }),
  /** Evaluates a run on AdvGLUE and writes the result to the file `out`. */
  z.strictObject({
    kind: z.literal("advglue"),
    model: z.string(),
    data: z.string().nullable(),
    out: z.string(),
    ...runtimeOptions,
  }),
  z.strictObject({ kind: z.literal("attack"), ...attackRequestSchema.shape, out: z.string() }),
  /** `analyze` checks the other keys, which depend on the analysis. */
  z.looseObject({
    kind: z.literal("analyze"),
    analysis: z.string(),
    runs: z.array(z.string()).min(1),
    out: z.string(),
    /** Hashes of the requests whose results it reads. */
    dependsOn: z.array(z.string()).default([]),
  }),
]);
export type WorkRequest = z.output<typeof workRequestSchema>;

/** RESULT.json: how a worker ended, and the hash of the request that it executed. */
const workResultSchema = z.object({
  format: z.literal(1),
  hash: z.string(),
  status: z.enum(["done", "failed", "interrupted"]),
  result: z.unknown().optional(),
  error: z.object({ message: z.string(), isUserError: z.boolean() }).optional(),
});
export type WorkResult = z.output<typeof workResultSchema>;

/** Keys that say where and how a request runs, not what it computes. */
const nonIdentityKeys = new Set(["device", "threads", "out", "resume", "concurrency", "cache"]);

/**
 * SHA-256 of everything that decides the result of a request. A sweep folder can move, so runs
 * count by name.
 */
export function hashRequest(request: WorkRequest): string {
  const isRun = request.kind === "train" || request.kind === "estimate";
  const identity = isRun ? formatConfigIdentity(request.config) : sortKeys(request);
  return createHash("sha256")
    .update(JSON.stringify([request.kind, identity]))
    .digest("hex");
}

/**
 * Plain data with sorted keys, without the keys that do not count. Run folders are replaced by
 * their names.
 */
function sortKeys(value: unknown, key = ""): unknown {
  if (typeof value === "string") return key === "model" || key === "runs" ? basename(value) : value;
  if (Array.isArray(value)) return value.map((each) => sortKeys(each, key));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name, each]) => !nonIdentityKeys.has(name) && each !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, sortKeys(each, name)]),
  );
}

export async function readWorkRequest(path: string): Promise<WorkRequest> {
  return validate(workRequestSchema, await readJson(path, "the request"), path);
}

/** Reads a result; null if there is none. */
export async function readWorkResult(path: string): Promise<WorkResult | null> {
  return readJsonIfExists(path, workResultSchema, "the result");
}
