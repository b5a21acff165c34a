import type { z } from "zod";
import { UserError } from "./errors.js";
import { exists, readJson, readText, writeFileAtomic } from "./files.js";
import { validate } from "./validate.js";

/** Reads and validates a JSON file; null if there is none. `what` names it in messages. */
export async function readJsonIfExists<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  what: string,
): Promise<z.output<Schema> | null> {
  return (await exists(path)) ? validate(schema, await readJson(path, what, { kind: "settings" }), path) : null;
}

export async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(value, null, 2)}\n`);
}

/**
 * Reads a JSON Lines file; no lines if there is none. `what` names it in messages. A last line
 * without a line break is skipped, because its writer has not finished or was killed. Other invalid
 * lines are reported as file:line.
 */
export async function readJsonLines<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  what: string,
): Promise<z.output<Schema>[]> {
  if (!(await exists(path))) return [];
  const lines = (await readText(path, what, { kind: "lines" })).split("\n").slice(0, -1);
  return lines.map((line, i) => validate(schema, parseLine(line, `${path}:${i + 1}`, what), `${path}:${i + 1}`));
}

function parseLine(line: string, location: string, what: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    const shown = line.length > 60 ? `${line.slice(0, 57)}…` : line;
    throw new UserError(
      `${location}: expected a line of JSON (${what}), received "${shown}". The line is damaged; remove it.`,
      { cause: error },
    );
  }
}
