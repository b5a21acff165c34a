import { z } from "zod";

/** A value of which one field was changed, and the keys that lead to this field. */
export interface Mutation {
  readonly path: string;
  readonly value: unknown;
}

interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly prefixItems?: readonly JsonSchema[];
}

/** Changes each field of a value in turn. Which fields there are, and of which types, the schema says. */
export function listMutations(schema: z.ZodType, value: unknown): Mutation[] {
  const json = z.toJSONSchema(schema, { unrepresentable: "any" }) as JsonSchema;
  return mutate(json, value, "").filter((each) => JSON.stringify(each.value) !== JSON.stringify(value));
}

function mutate(schema: JsonSchema, value: unknown, path: string): Mutation[] {
  const options = schema.anyOf ?? schema.oneOf;
  if (options) {
    const own = options.find((option) => matches(option, value));
    const others = path === "" ? [] : options.filter((option) => option !== own).map(createSample);
    return [...others.map((each) => ({ path, value: each })), ...(own ? mutate(own, value, path) : [])];
  }
  const of = (...values: readonly unknown[]): Mutation[] => values.map((each) => ({ path, value: each }));
  if (schema.const !== undefined) return [];
  if (schema.enum) return of(...schema.enum);
  if (typeof value === "boolean") return of(!value);
  if (typeof value === "string")
    return of(
      `${value}x`,
      value.replace(/^./, (first) => (first === "0" ? "1" : "0")),
    );
  if (typeof value === "number")
    return schema.type === "integer" ? of(value + 1, value - 1) : of(value + 0.3, value - 0.3);
  if (Array.isArray(value)) {
    const mutateItem = (at: number): Mutation[] =>
      mutate(schema.prefixItems?.[at] ?? schema.items ?? {}, value[at], `${path}.${at}`).map((each) => ({
        path: each.path,
        value: value.with(at, each.value),
      }));
    const items = [...new Set([0, value.length - 1])].filter((at) => at in value).flatMap(mutateItem);
    const isTuple = schema.prefixItems !== undefined;
    const longer = [...value, value[0] ?? createSample(schema.items ?? {})];
    return isTuple ? items : [...items, ...of(value.slice(0, -1), longer, value.toReversed())];
  }
  if (typeof value !== "object" || value === null) return [];
  const record = value as Readonly<Record<string, unknown>>;
  // The keys of a record are those that it has.
  const properties = schema.properties ?? Object.fromEntries(Object.keys(record).map((key) => [key, {}]));
  return Object.entries(properties).flatMap(([key, property]: [string, JsonSchema]) => {
    const at = path === "" ? key : `${path}.${key}`;
    if (!(key in record)) return [{ path: at, value: { ...record, [key]: createSample(property) } }];
    const { [key]: _, ...rest } = record;
    const changed = mutate(property, record[key], at).map((each) => ({
      path: each.path,
      value: { ...record, [key]: each.value },
    }));
    return schema.required?.includes(key) ? changed : [...changed, { path: at, value: rest }];
  });
}

function matches(schema: JsonSchema, value: unknown): boolean {
  const { kind } = (schema.properties ?? {}) as { readonly kind?: JsonSchema };
  if (kind) return (value as { readonly kind?: unknown } | null)?.kind === kind.const;
  if (schema.type === "null") return value === null;
  if (schema.type === "array") return Array.isArray(value);
  if (schema.type === "integer" || schema.type === "number") return typeof value === "number";
  return typeof value === schema.type;
}

function createSample(schema: JsonSchema): unknown {
  const [option] = schema.anyOf ?? schema.oneOf ?? [];
  if (option) return createSample(option);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, property]) => [key, createSample(property)]),
      );
    case "array":
      return schema.prefixItems?.map(createSample) ?? [createSample(schema.items ?? {})];
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return "x";
  }
}
