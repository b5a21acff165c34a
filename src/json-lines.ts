import type { z } from "zod";
import { UserError } from "./errors.js";
import { readText } from "./files.js";
import { validate } from "./validate.js";

/**
 * Reads a file of JSON, a line a value; `what` names it in messages. A last line that has no end yet is left out: it is being
 * written, or was when its writer died. Any other line that is not as it should be is named as file:line.
 */
export async function readJsonLines<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  what: string,
): Promise<z.output<Schema>[]> {
  const lines = (await readText(path, what)).split("\n").slice(0, -1);
  return lines.map((line, i) => validate(schema, parseLine(line, `${path}:${i + 1}`, what), `${path}:${i + 1}`));
}

function parseLine(line: string, where: string, what: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    const shown = line.length > 60 ? `${line.slice(0, 57)}…` : line;
    throw new UserError(
      `${where}: expected a line of JSON (${what}), received "${shown}"; it is damaged: take the line out`,
      {
        cause: error,
      },
    );
  }
}
