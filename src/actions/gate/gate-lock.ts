import { dirname, isAbsolute, relative, resolve } from "node:path";
import { z } from "zod";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import { UserError } from "../../errors.js";
import { exists, readJson, writeFileAtomic } from "../../files.js";
import { validate } from "../../validate.js";

/** What a model did with one text, before and under each attack. */
const measurementSchema = z.object({
  /** The probability of the true label before the attack. */
  clean: z.number(),
  isCorrect: z.boolean(),
  /**
   * By attack: the probability of the true label of the final text, and whether the model resisted.
   */
  attacks: z.record(z.string(), z.object({ score: z.number(), isRobust: z.boolean() })),
});
export type Measurement = z.output<typeof measurementSchema>;

/** What a model did with the texts of a whole split, without an attack. */
export const cleanMeasurementSchema = z.strictObject({
  /** SHA-256 of the examples. */
  examples: z.string(),
  /** One character per example: 1 correct, 0 incorrect. */
  correct: z.string().regex(/^[01]*$/),
});
export type CleanMeasurement = z.output<typeof cleanMeasurementSchema>;

/** The settings that must be the same for both models. */
export const pinnedAttackSchema = z.strictObject({
  attacks: z.array(attackSpecSchema).min(1),
  substitutions: z.string().nullable(),
  inVocabSubstitutes: z.boolean().nullable(),
  caseSensitiveSubstitutes: z.boolean().nullable(),
  /** Null: the default of the attack. */
  minContextSimilarity: z.number().min(-1).max(1).nullable().default(null),
  queryBudget: z.number().int().positive().nullable(),
  seed: z.number().int().nonnegative(),
});
export type PinnedAttack = z.output<typeof pinnedAttackSchema>;

/** gate.lock: the texts, the attack and what the baseline did with them. */
export const gateLockSchema = z.strictObject({
  format: z.literal(1),
  temper: z.string(),
  /** The name of the baseline. */
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
  hashes: z.record(z.string(), z.string()),
  /** The baseline on the whole split, without an attack; null if it was not measured. */
  clean: cleanMeasurementSchema.nullable().default(null),
  /** Predictions of the baseline before the attack. Rows are gold labels. */
  confusionMatrix: z.array(z.array(z.number())).default([]),
  examples: z
    .array(
      z.strictObject({
        id: z.string(),
        texts: z.array(z.string()).min(1),
        label: z.number().int(),
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
export async function readGateLock(path: string): Promise<GateLock> {
  if (!(await exists(path)))
    throw new UserError(
      `${path}: there is no such lock. Write one with: temper gate MODEL --baseline RUN --lock ${path}`,
    );
  const lock = validate(gateLockSchema, await readJson(path, "the lock of the gate"), path);
  return { ...lock, attack: moveSubstitutions(lock.attack, (source) => resolve(dirname(path), source)) };
}

/** Writes a lock that can be committed with the code. */
export async function writeGateLock(path: string, lock: GateLock): Promise<void> {
  const attack = moveSubstitutions(lock.attack, (source) => relative(dirname(resolve(path)), resolve(source)));
  await writeFileAtomic(path, `${JSON.stringify({ ...lock, attack }, null, 1)}\n`);
}

function moveSubstitutions(attack: PinnedAttack, move: (source: string) => string): PinnedAttack {
  const { substitutions } = attack;
  const isFile = substitutions !== null && (isAbsolute(substitutions) || /\.json$/i.test(substitutions));
  return isFile ? { ...attack, substitutions: move(substitutions) } : attack;
}
