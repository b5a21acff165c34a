import { createHash } from "node:crypto";
import { basename } from "node:path";
import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { exactRequestSchema } from "../actions/exact/exact-request.js";
import { readJson } from "../base/files.js";
import { readJsonIfExists } from "../base/read-json.js";
import { orNull, validate } from "../base/validate.js";
import { hardenRequestSchema } from "../harden/harden-request.js";
import { formatConfigIdentity, runConfigSchema } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";

export const workRequestSchema = z.discriminatedUnion("kind", [
  /** Trains a run, or continues it. Without a config, that of the run folder counts. */
  z.strictObject({ kind: z.literal("train"), config: orNull(runConfigSchema), out: z.string() }),
  /** Counts the work of runs on the same data, and takes a sample of their texts. */
  z.strictObject({ kind: z.literal("count-work"), configs: z.array(runConfigSchema).min(1) }),
  /** Measures a few steps of a run on such a sample, within so many seconds. */
  z.strictObject({
    kind: z.literal("measure"),
    config: runConfigSchema,
    sample: z.array(z.object({ id: z.string(), texts: z.array(z.string()), label: z.int() })),
    stepsPerEpoch: z.number(),
    seconds: z.number(),
  }),
  /** Evaluates a run on AdvGLUE and writes the result to the file `out`. */
  z.strictObject({
    kind: z.literal("advglue"),
    model: z.string(),
    data: z.string().nullable(),
    out: z.string(),
    ...runtimeOptions,
  }),
  /** Evaluates a run exactly and writes what it proved to the file `result`. */
  z.strictObject({ kind: z.literal("exact"), ...exactRequestSchema.shape, result: z.string() }),
  /** Proves the texts of an exact evaluation that nobody else works on. */
  z.strictObject({ kind: z.literal("exact-parts"), ...exactRequestSchema.shape, out: z.string() }),
  z.strictObject({ kind: z.literal("attack"), ...attackRequestSchema.shape, out: z.string() }),
  /** Trains a standard and a robust model, attacks and compares them, and writes a report. */
  z.strictObject({ kind: z.literal("harden"), ...hardenRequestSchema.shape, out: z.string() }),
  /** Attacks the shards of an attack that nobody else works on. */
  z.strictObject({ kind: z.literal("attack-shards"), ...attackRequestSchema.shape, out: z.string() }),
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

/** A worker process receives the file of a request, and the file for its result. */
export const workFilesSchema = z.strictObject({ requestPath: z.string(), resultPath: z.string() });
export type WorkFiles = Readonly<z.output<typeof workFilesSchema>>;

/** RESULT.json: how a worker ended, and the hash of the request that it executed. */
const workResultSchema = z.object({
  format: z.literal(1),
  hash: z.string(),
  status: z.enum(["done", "failed", "interrupted"]),
  result: z.unknown().optional(),
  error: z.object({ message: z.string(), isUserError: z.boolean() }).optional(),
});
export type WorkResult = z.output<typeof workResultSchema>;

export const workProgressSchema = z.object({
  stage: z.string(),
  done: z.number(),
  total: z.number(),
  unit: z.enum(["steps", "texts"]),
});
export type WorkProgress = Readonly<z.output<typeof workProgressSchema>>;

export async function readWorkRequest(path: string): Promise<WorkRequest> {
  return validate(workRequestSchema, await readJson(path, "the request", { kind: "settings" }), path);
}

export async function readWorkResult(path: string): Promise<WorkResult | null> {
  return readJsonIfExists(path, workResultSchema, "the result");
}

/** Keys that say where and how a request runs, not what it computes. */
const nonIdentityKeys = new Set(["device", "threads", "out", "resume", "concurrency", "cache", "result"]);

/** SHA-256 of everything that decides a result. A sweep folder can move, so runs count by name. */
export function hashRequest(request: WorkRequest): string {
  const config = request.kind === "train" ? request.config : null;
  const identity = config ? formatConfigIdentity(config) : sortKeys(request);
  return createHash("sha256")
    .update(JSON.stringify([request.kind, identity]))
    .digest("hex");
}

/** Plain data with sorted keys, without keys that do not count, with runs by name. */
function sortKeys(value: unknown, key = ""): unknown {
  if (typeof value === "string") return key === "model" || key === "runs" ? basename(value) : value;
  if (Array.isArray(value)) return value.map((each) => sortKeys(each, key));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([name, each]) => !nonIdentityKeys.has(name) && each !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, sortKeys(each, name)]),
  );
}
