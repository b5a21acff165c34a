import type { z } from "zod";
import type { TrainingMethod } from "../train/index.js";

/** A published method: its name, what it is, its options and the layer that does it. */
export interface MethodDefinition<Schema extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** One line for tables and --help. */
  readonly summary: string;
  readonly paper: string;
  /** Options with their defaults: the only place where these stand. */
  readonly options: Schema;
  create(options: z.output<Schema>): TrainingMethod;
}

/** Gives a method's parts one another's types. */
export function defineMethod<Schema extends z.ZodType>(method: MethodDefinition<Schema>): MethodDefinition<Schema> {
  return method;
}
