import { z } from "zod";
import { validate } from "../base/validate.js";
import type { TrainedCertificate } from "../proofs/certificates/index.js";
import type { TrainingMethod } from "../train/index.js";

export interface MethodDefinition<Schema extends z.ZodType = z.ZodType> {
  readonly name: string;
  readonly summary: string;
  readonly paper: string;
  /** Time of a training step as a multiple of a standard step: docs/guide/methods.md has the settings. */
  readonly cost?: {
    readonly gpu: string;
    readonly cpu: string;
    /** Work that is no part of a step. */
    readonly extra?: string;
  };
  readonly options: Schema;
  /** The settings without which the method cannot run. They are filled in if nobody names them. */
  readonly requires?: Readonly<{ tokenization: "word"; substitutions: string }>;
  readonly bestModelMetric?: string;
  certificate?(options: z.output<Schema>): TrainedCertificate;
  create(options: z.output<Schema>): TrainingMethod;
}

/** A method in a config: its name and options. The definition is optional for built-in methods. */
export interface MethodSpec {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly definition?: MethodDefinition;
}

/** A method that can be called with options: `ascc({ beta: 4 })` returns a `MethodSpec`. */
export type Method<Schema extends z.ZodType = z.ZodType, Name extends string = string> = MethodDefinition<Schema> & {
  readonly name: Name;
} & ((options?: z.input<Schema>) => MethodSpec);

/**
 * Defines a method. The result can be listed in the `methods` of a config.
 *
 * @example
 * const confidencePenalty = defineMethod({
 *   name: "confidence-penalty",
 *   summary: "penalizes confident predictions",
 *   paper: "Pereyra et al., 2017",
 *   options: z.strictObject({ beta: z.number().default(0.1) }),
 *   create: ({ beta }) => ({
 *     name: "confidence-penalty",
 *     losses(context, next) {
 *       const losses = new Map(next());
 *       const logProbabilities = context.pass("clean").logits.logSoftmax(-1);
 *       const negativeEntropy = logProbabilities.exp().mul(logProbabilities).sum([-1]).mean();
 *       return losses.set("confidence", negativeEntropy.mul(beta));
 *     },
 *   }),
 * });
 * const methods = [confidencePenalty({ beta: 0.2 })];
 * await train({ model, task: "sst2", methods, out: "runs/penalty" });
 */
export function defineMethod<Schema extends z.ZodType, const Name extends string>(
  definition: MethodDefinition<Schema> & { readonly name: Name },
): Method<Schema, Name> {
  const { name, ...rest } = definition;
  const method = (options?: z.input<Schema>): MethodSpec => {
    const given = (options ?? {}) as Readonly<Record<string, unknown>>;
    validate(definition.options, given, name);
    return { name, options: given, definition: method as Method };
  };
  // A function already has a read-only `name`.
  Object.defineProperty(method, "name", { value: name });
  return Object.assign(method, rest) as unknown as Method<Schema, Name>;
}

const fractionError = "expected a fraction in (0, 1], such as 0.6";

export const nonnegativeSchema = z.number().nonnegative();

export const fractionSchema = z.number({ error: fractionError }).gt(0, fractionError).lte(1, fractionError);
