import { z } from "zod";

/** One option of a schema, for people: its values, default and meaning. */
export interface OptionDescription {
  readonly name: string;
  /** For example "number > 0", "integer >= 1" or "first, second, ensemble". */
  readonly values: string;
  readonly default: unknown;
  /** The meaning of null; null if it says nothing. */
  readonly whenNull: string | null;
  readonly description: string;
}

/** A schema as JSON Schema describes it. */
export interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly default?: unknown;
  readonly description?: string;
  /** The meaning of null: see `orNull`. */
  readonly whenNull?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
}

/** Reads what a request may contain, with the descriptions, defaults and limits of its keys. */
export function toJsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonSchema;
}

/**
 * Describes the options of an object schema, so that names, ranges and defaults are written
 * once.
 */
export function describeOptions(schema: z.ZodType): OptionDescription[] {
  return Object.entries(toJsonSchema(schema).properties ?? {}).map(([name, option]) => ({
    name,
    values: formatValues(option),
    default: option.default ?? null,
    whenNull: option.whenNull ?? null,
    description: option.description ?? "",
  }));
}

function formatValues(schema: JsonSchema): string {
  const { type = "value", enum: choices, const: only, anyOf, items } = schema;
  if (anyOf) return anyOf.map(formatValues).join(", ");
  if (choices) return choices.join(", ");
  if (only !== undefined) return String(only);
  if (items) return `list of ${formatValues(items)}`;
  if (type === "boolean") return "true, false";
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  // Zod limits every integer to those that a number represents exactly, which says nothing.
  const isLimit = (bound: number | undefined): bound is number => bound !== undefined && Math.abs(bound) < 2 ** 53 - 1;
  const bounds = [
    isLimit(exclusiveMinimum) && `> ${exclusiveMinimum}`,
    isLimit(minimum) && `>= ${minimum}`,
    isLimit(exclusiveMaximum) && `< ${exclusiveMaximum}`,
    isLimit(maximum) && `<= ${maximum}`,
  ].filter((bound) => bound !== false);
  return [[type].flat().join(", "), ...bounds].join(" ");
}
