import { createHash } from "node:crypto";
import { dirname, isAbsolute, relative, resolve } from "node:path";
import { z } from "zod";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import { UserError } from "../../base/errors.js";
import { exists, readJson, writeFileAtomic } from "../../base/files.js";
import { resolveModule, type Trust } from "../../base/trust.js";
import { validate } from "../../base/validate.js";

const measurementSchema = z.object({
  clean: z.number(),
  isCorrect: z.boolean(),
  /**
   * By attack: the probability of the true label of the final text, and whether the model resisted.
   */
  attacks: z.record(z.string(), z.object({ score: z.number(), isRobust: z.boolean() })),
});
export type Measurement = z.output<typeof measurementSchema>;

const cleanMeasurementSchema = z.strictObject({
  examples: z.string(),
  /** One character per example: 1 correct, 0 incorrect. */
  correct: z.string().regex(/^[01]+$/),
});

/** The precisions that a lock can pin. `auto` would be another one on another host. */
export const gatePrecisions = ["fp32", "tf32", "bf16", "int8"] as const;

/** The settings that must be the same for both models. */
const pinnedAttackSchema = z.strictObject({
  attacks: z.array(attackSpecSchema).min(1),
  substitutions: z.string().nullable(),
  inVocabSubstitutes: z.boolean().nullable(),
  caseSensitiveSubstitutes: z.boolean().nullable(),
  /** Null: the default of the attack. */
  minContextSimilarity: z.number().min(-1).max(1).nullable().default(null),
  queryBudget: z.number().int().positive().nullable(),
  seed: z.number().int().nonnegative(),
  /** Of the search. A search in low precision is weaker, so both models get the same one. */
  precision: z.enum(gatePrecisions),
});

const lockFormat = 3;

/** gate.lock: the texts, the attack and what the baseline did with them. */
export const gateLockSchema = z.strictObject({
  format: z.literal(lockFormat),
  /** The version of Temper, and so of its attacks. */
  temper: z.string(),
  baseline: z.string(),
  task: z.strictObject({
    name: z.string(),
    split: z.enum(["train", "validation", "test"]),
    labels: z.array(z.string()).min(2),
    fields: z.array(z.string()).min(1),
    modifiableFields: z.array(z.number().int().nonnegative()),
  }),
  attack: pinnedAttackSchema,
  /** SHA-256 of the examples and of the substitutions. */
  hashes: z.looseObject({ data: z.string() }).catchall(z.string()),
  clean: cleanMeasurementSchema,
  examples: z
    .array(
      z.strictObject({
        id: z.string(),
        texts: z.array(z.string()).min(1),
        label: z.number().int().nonnegative(),
        baseline: measurementSchema,
      }),
    )
    .min(1),
});
export type GateLock = z.output<typeof gateLockSchema>;

/** A reference to a lock is the path of a .lock file; everything else is a model. */
export function isLockFile(reference: string): boolean {
  return reference.endsWith(".lock");
}

/** Reads a lock. The path of a table of substitutions is relative to the lock. */
export async function readGateLock(path: string, trust: Trust, version: string): Promise<GateLock> {
  if (!(await exists(path)))
    throw new UserError(
      `${path}: there is no such lock. Write one with: temper gate MODEL --baseline RUN --lock ${path}`,
    );
  const sealed = sealedSchema.safeParse(await readJson(path, "the lock of the gate"));
  if (!sealed.success)
    throw new UserError(
      `${path} is not a lock of the gate: its JSON has no format. Expected a file that temper gate --lock wrote. ` +
        "Name that file, or write a new lock with --baseline RUN --lock FILE.",
    );
  const { seal, ...content } = sealed.data;
  if (content.format !== lockFormat)
    throw new UserError(`${path}: expected a lock of format ${lockFormat}, ${describeNewLock("received another one")}`);
  if (seal !== computeSeal(content))
    throw new UserError(`${path}: ${describeNewLock("the lock was edited, so it says nothing about the baseline")}`);
  const lock = validate(gateLockSchema, content, path);
  checkLock(lock, path);
  if (lock.temper !== version)
    throw new UserError(
      `${path}: Temper ${lock.temper} attacked the baseline, and its attacks may differ from those of ${version}. ` +
        `Use that version, or ${describeNewLock("")}`,
    );
  const folder = dirname(path);
  const attacks = lock.attack.attacks.map(({ name, ...rest }) => ({
    ...rest,
    name: resolveModule(name, { trust, folder }, path),
  }));
  return moveSubstitutions({ ...lock, attack: { ...lock.attack, attacks } }, (source) => resolve(folder, source));
}

function describeNewLock(problem: string): string {
  return `${problem}${problem === "" ? "" : ". Restore it, or "}write a new lock with --baseline RUN --lock FILE.`;
}

const sealedSchema = z.looseObject({ format: z.number(), seal: z.string().default("") });

/** SHA-256 of the content. It shows edits by hand; who computes a new one can forge a lock. */
function computeSeal(content: object): string {
  return createHash("sha256").update(JSON.stringify(content)).digest("hex");
}

/** Rejects a lock without one of the checks that its attacks and texts require. */
function checkLock({ task, attack, examples }: GateLock, path: string): void {
  const fail = (problem: string): never => {
    throw new UserError(`${path}: ${describeNewLock(problem)}`);
  };
  if (new Set(examples.map(({ id }) => id)).size < examples.length) fail("two texts have the same id");
  if (task.modifiableFields.some((field) => field >= task.fields.length)) fail("modifiableFields names no field");
  const names = Object.keys(examples[0]!.baseline.attacks).sort();
  if (names.length !== attack.attacks.length)
    fail(`the baseline has results of ${names.length} attacks, expected ${attack.attacks.length}`);
  for (const { id, label, texts, baseline } of examples) {
    if (label >= task.labels.length) fail(`text ${id} has label ${label}, expected less than ${task.labels.length}`);
    if (texts.length !== task.fields.length) fail(`text ${id} has ${texts.length} fields`);
    if (JSON.stringify(Object.keys(baseline.attacks).sort()) !== JSON.stringify(names))
      fail(`text ${id} lacks the result of an attack`);
  }
}

export async function writeGateLock(path: string, lock: GateLock): Promise<void> {
  const content = moveSubstitutions(lock, (source) => relative(dirname(resolve(path)), resolve(source)));
  await writeFileAtomic(path, formatGateLock(content));
}

export function formatGateLock(content: object): string {
  return `${JSON.stringify({ ...content, seal: computeSeal(content) }, null, 1)}\n`;
}

function moveSubstitutions(lock: GateLock, move: (source: string) => string): GateLock {
  const { substitutions } = lock.attack;
  const isFile = substitutions !== null && (isAbsolute(substitutions) || /\.json$/i.test(substitutions));
  return isFile ? { ...lock, attack: { ...lock.attack, substitutions: move(substitutions) } } : lock;
}
