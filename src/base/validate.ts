import { z } from "zod";
import { didYouMean } from "./did-you-mean.js";
import { UserError } from "./errors.js";

/** The source of data: one name for all of it, or a function that locates each key. */
export type SourceLocation = string | ((path: readonly PropertyKey[]) => string);

export const countSchema = z.number().int().positive();

/** Whole numbers from 0 are random seeds. */
export const seedSchema = z.number().int().nonnegative();

/**
 * A text of which the compiler knows the values. Nothing else checks them here: who looks a name up
 * says what is known.
 */
export function typedString<Text extends string>(): z.ZodType<Text, Text> {
  return z.string() as unknown as z.ZodType<Text, Text>;
}

/**
 * Adds null as another value and as the default. `whenNull` says what null means, such as "as in
 * training". Flags, forms and references show it as the default.
 */
export function orNull<Schema extends z.ZodType>(
  schema: Schema,
  whenNull?: string,
): z.ZodDefault<z.ZodNullable<Schema>> {
  const optional = schema.nullable().default(null);
  return whenNull === undefined ? optional : optional.meta({ whenNull });
}

/** Turns one value into a list of one where a list is expected, as on the command line. */
export function acceptOne<Schema extends z.ZodType>(list: Schema) {
  return z.preprocess((value) => (["string", "number"].includes(typeof value) ? [value] : value), list);
}

/** Report at most 20 problems; nobody reads a longer list. */
const maxProblems = 20;
/** Longest key and value in a message. */
const maxShownCharacters = 80;

/**
 * Validates data against a schema. The UserError names the location, the expected and the actual
 * value.
 */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  data: unknown,
  location: SourceLocation,
): z.output<Schema> {
  const result = schema.safeParse(data);
  if (result.success) return result.data;
  const locate = (path: readonly PropertyKey[]): string => (typeof location === "string" ? location : location(path));
  const problems: string[] = [];
  let more = 0;
  // Locating a key and finding a similar one take time, so only what is shown is described.
  const report = (describe: () => string): void => {
    if (problems.length < maxProblems) problems.push(describe());
    else more++;
  };
  for (const issue of result.error.issues) {
    if (issue.code === "unrecognized_keys") {
      const known = listKeysAt(schema, issue.path);
      for (const key of issue.keys)
        report(() => {
          const path = [...issue.path, key];
          const group = known.find((name) => listKeysAt(schema, [...issue.path, name]).includes(key));
          return `${locate(path)}: unknown key ${formatPath(path)}${suggestKey(key, known, group)}`;
        });
    } else
      report(() => {
        const path = formatPath(issue.path);
        const problem = `${describeIssue(issue)}, received ${formatValue(getValueAt(data, issue.path))}`;
        return `${locate(issue.path)}: ${path === "" ? "" : `${path}: `}${problem}`;
      });
  }
  throw new UserError([...problems, ...(more > 0 ? [`and ${more} more`] : [])].join("\n"));
}

/** Suggests what was probably meant: the key of a group, or a key that is spelled almost the same. */
function suggestKey(key: string, known: readonly string[], group: string | undefined): string {
  const inGroup = group === undefined ? "" : ` (did you mean "${group}.${key}"?)`;
  const meant = inGroup || (key.length > maxShownCharacters ? "" : didYouMean(key, known));
  return `${meant}; expected one of ${known.join(", ")}`;
}

/** Lists the keys that an object schema has at a path. */
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

/** Returns zod's message without "Invalid input:" at its start and the received type at its end. */
function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_union" && issue.message === "Invalid input") {
    const own = issue.errors.flat().filter(({ path }) => path.length === 0);
    const expected = new Set(own.map((each) => describeIssue(each).replace(/^expected /, "")));
    return expected.size > 0 ? `expected ${[...expected].join(" or ")}` : "expected another value";
  }
  return issue.message
    .replace(/^(Invalid input|Invalid option|Too small|Too big): /, "")
    .replace(/, received [\w ]+$/, "");
}

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) =>
      typeof part === "number" ? `${text}[${part}]` : `${text}${text && "."}${shortenText(String(part))}`,
    "",
  );
}

function getValueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

function formatValue(value: unknown): string {
  return value === undefined ? "nothing" : shortenText(formatStart(value, 0));
}

/** Formats the start of a value as JSON. Deep, large and cyclic values are cut off. */
function formatStart(value: unknown, depth: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, maxShownCharacters + 1));
  if (typeof value !== "object" || value === null) return String(value);
  const isList = Array.isArray(value);
  const parts: string[] = [];
  let length = 0;
  for (const key in value) {
    if (!Object.hasOwn(value, key)) continue;
    if (length > maxShownCharacters || depth > 8) {
      parts.push("…");
      break;
    }
    const item = formatStart((value as Record<string, unknown>)[key], depth + 1);
    parts.push(isList ? item : `${JSON.stringify(key.slice(0, maxShownCharacters + 1))}:${item}`);
    length += parts.at(-1)!.length;
  }
  return isList ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

function shortenText(text: string): string {
  return text.length > maxShownCharacters ? `${text.slice(0, maxShownCharacters - 3)}…` : text;
}
