import { z } from "zod";
import { didYouMean } from "./did-you-mean.js";
import { UserError } from "./errors.js";

/** Names where data came from: one name for all of it, or the place of each part (file:line:column). */
export type SourceLocation = string | ((path: readonly PropertyKey[]) => string);

/** Who gets a page of problems reads none of them. */
const maxProblems = 20;

/** Checks data from outside against a schema; a UserError names the place, what was expected and what came. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  data: unknown,
  location: SourceLocation,
): z.output<Schema> {
  const result = schema.safeParse(data);
  if (result.success) return result.data;
  const locate = (path: readonly PropertyKey[]): string => (typeof location === "string" ? location : location(path));
  const { issues } = result.error;
  const problems = issues.slice(0, maxProblems).flatMap((issue) => {
    if (issue.code === "unrecognized_keys") {
      const known = listKeysAt(schema, issue.path);
      return issue.keys.map((key) => {
        const path = [...issue.path, key];
        return `${locate(path)}: ${formatPath(path)}: there is no such key${didYouMean(key, known)}; the keys are ${known.join(", ")}`;
      });
    }
    const path = formatPath(issue.path);
    return [
      `${locate(issue.path)}: ${path === "" ? "" : `${path}: `}${describeIssue(issue)}, received ${formatValue(getValueAt(data, issue.path))}`,
    ];
  });
  const more = issues.length - maxProblems;
  throw new UserError([...problems, ...(more > 0 ? [`and ${more} more like these`] : [])].join("\n"));
}

/** The keys that an object schema has at a path. */
function listKeysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = schema;
  const unwrap = (): void => {
    while (
      at instanceof z.ZodDefault ||
      at instanceof z.ZodPrefault ||
      at instanceof z.ZodOptional ||
      at instanceof z.ZodNullable
    )
      at = at.unwrap();
  };
  unwrap();
  for (const part of path) {
    at = at instanceof z.ZodObject ? at.shape[String(part)] : at instanceof z.ZodArray ? at.element : undefined;
    unwrap();
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

/** zod's own words without its "Invalid input:" lead and its "received" tail, which names only the type. */
function describeIssue(issue: z.core.$ZodIssue): string {
  return issue.message
    .replace(/^(Invalid input|Invalid option|Too small|Too big): /, "")
    .replace(/, received [\w ]+$/, "");
}

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : `${text}${text && "."}${String(part)}`),
    "",
  );
}

function getValueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

/** A value as it stands in the message: short, and never a page of JSON. */
function formatValue(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
