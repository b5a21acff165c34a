import type { z } from "zod";
import { exists, readJson } from "./files.js";
import { validate } from "./validate.js";

/** Reads and validates a JSON file; null if there is none. `what` names it in messages. */
export async function readJsonIfExists<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  what: string,
): Promise<z.output<Schema> | null> {
  return (await exists(path)) ? validate(schema, await readJson(path, what, { kind: "settings" }), path) : null;
}
