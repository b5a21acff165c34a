import type { z } from "zod";
import type { Layer } from "../train/index.js";

/** A published method: its name, what it is, its options and the layer that does it. */
export interface Method<Schema extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** One line for tables and --help. */
  readonly summary: string;
  readonly paper: string;
  /** Options with their defaults: the only place where these stand. */
  readonly options: Schema;
  create(options: z.output<Schema>): Layer;
}

/** Gives a method's parts one another's types. */
export function defineMethod<Schema extends z.ZodType>(method: Method<Schema>): Method<Schema> {
  return method;
}
