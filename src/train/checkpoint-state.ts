import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { createFileError, getErrorCode, readBytes, sha256File, writeFileAtomic } from "../base/files.js";

export const checkpointGroups = ["weights", "moments", "buffers"] as const;
export type CheckpointGroup = (typeof checkpointGroups)[number];

const count = z.number().int().nonnegative();
const bestSchema = z.object({
  step: count,
  value: z.number(),
  metrics: z.record(z.string(), z.number()),
  /** The reason why the model of this step is degenerate; null if it is not. */
  degeneracy: z.string().nullable().default(null),
});

/** The progress of a run. With the tensors, the next step depends on nothing else. */
const stateSchema = z
  .object({
    step: count,
    epoch: count,
    /** Optimizer steps done in this epoch. */
    stepInEpoch: count,
    lastEvaluatedStep: count,
    best: bestSchema.nullable(),
    evaluationsSinceBest: count,
    /** Bytes of events.jsonl and timings.jsonl that belong to these steps. */
    eventBytes: count,
    timingBytes: count,
  })
  .refine(({ step, lastEvaluatedStep, best }) => lastEvaluatedStep <= step && (best?.step ?? 0) <= step);
export type CheckpointState = z.output<typeof stateSchema>;

const format = 3;
const hashSchema = z.string().regex(/^[0-9a-f]{64}$/);
const fileSchema = z.strictObject({
  format: z.literal(format),
  state: stateSchema,
  hashes: z.strictObject({ weights: hashSchema, moments: hashSchema, buffers: hashSchema }),
});
const stateFile = "state.json";

/** A checkpoint whose content provably is not what was written. */
export class DamagedCheckpoint extends Error {
  override name = "DamagedCheckpoint";
}

export function getGroupPath(checkpoint: string, group: CheckpointGroup): string {
  return join(checkpoint, `${group}.safetensors`);
}

export async function writeCheckpointState(checkpoint: string, state: CheckpointState): Promise<void> {
  const hashes: Record<string, string> = {};
  for (const group of checkpointGroups) hashes[group] = await sha256File(getGroupPath(checkpoint, group));
  const content = { format, state, hashes };
  const sealed = { ...content, seal: computeSeal(content) };
  await writeFileAtomic(join(checkpoint, stateFile), `${JSON.stringify(sealed)}\n`);
}

function computeSeal(content: unknown): string {
  return createHash("sha256").update(JSON.stringify(content)).digest("hex");
}

/** Reads the sealed state of a checkpoint. Only provably wrong content is a DamagedCheckpoint. */
export async function readCheckpointState(
  checkpoint: string,
  step: number,
): Promise<{ readonly state: CheckpointState; readonly hashes: Readonly<Record<CheckpointGroup, string>> }> {
  const path = join(checkpoint, stateFile);
  const bytes = await readBytes(path, "the checkpoint", { kind: "settings" }).catch((error: unknown) => {
    throw explainReadError(error, path);
  });
  const { seal, ...content } = parseObject(bytes.toString("utf8"));
  if (seal !== computeSeal(content)) {
    rejectOtherFormat(content, path);
    throw new DamagedCheckpoint(`${stateFile} does not match its seal`);
  }
  rejectOtherFormat(content, path);
  const parsed = fileSchema.safeParse(content);
  if (!parsed.success || parsed.data.state.step !== step)
    throw new DamagedCheckpoint(`${stateFile} has values that are out of range`);
  return parsed.data;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // Reported below.
  }
  throw new DamagedCheckpoint(`${stateFile} is not a JSON object`);
}

/** Version 2 had no seal, and its format number was inside the state. */
function rejectOtherFormat(content: Readonly<Record<string, unknown>>, path: string): void {
  const inner = content.state as { readonly format?: unknown } | undefined;
  const received = content.format ?? inner?.format;
  if (typeof received !== "number" || received === format) return;
  throw new UserError(
    `${path}: expected a checkpoint of format ${format}, received format ${received}. Resume with the version of ` +
      "Temper that wrote it, or start over with a different --out. Nothing was changed.",
  );
}

export async function verifyGroups(
  checkpoint: string,
  hashes: Readonly<Record<CheckpointGroup, string>>,
): Promise<void> {
  for (const group of checkpointGroups) {
    const path = getGroupPath(checkpoint, group);
    const hash = await sha256File(path, { kind: "weights" }).catch((error: unknown) => {
      throw explainReadError(error, path);
    });
    if (hash !== hashes[group]) throw new DamagedCheckpoint(`${group}.safetensors does not match its hash`);
  }
}

/** A checkpoint is complete when it appears, so a missing file is damage. Other errors may pass. */
function explainReadError(error: unknown, path: string): Error {
  const cause = error instanceof UserError ? error.cause : error;
  if (getErrorCode(cause) === "ENOENT") return new DamagedCheckpoint(`${path} is missing`);
  const { message } = createFileError(error, path, "read the checkpoint");
  return new UserError(`${message}. Nothing was changed. Resume when the file can be read.`, { cause });
}
