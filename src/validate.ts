import type { z } from "zod";
import { UserError } from "./errors.js";

/** Checks data from outside against a schema; a UserError names the place, what was expected and what came. */
export function validate<Schema extends z.ZodType>(schema: Schema, data: unknown, where: string): z.output<Schema> {
  const result = schema.safeParse(data);
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => {
    const path = formatPath(issue.path);
    return `${where}: ${path === "" ? "" : `${path}: `}${describe(issue)}, received ${show(valueAt(data, issue.path))}`;
  });
  throw new UserError(problems.join("\n"));
}

/** zod's own words without its "Invalid input:" lead and its "received" tail, which names only the type. */
function describe(issue: z.core.$ZodIssue): string {
  return issue.message.replace(/^(Invalid input|Invalid option|Too small|Too big): /, "").replace(/, received [\w ]+$/, "");
}

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => (typeof part === "number" ? `${text}[${part}]` : `${text}${text && "."}${String(part)}`), "");
}

function valueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

/** A value as it stands in the message: short, and never a page of JSON. */
function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
