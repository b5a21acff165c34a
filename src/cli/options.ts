import { type Command, InvalidArgumentError, Option, type OptionValues } from "@commander-js/extra-typings";
import type { z } from "zod";
import { httpVictimSchema } from "../attacks/endpoint.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { type JsonSchema, toJsonSchema } from "../base/describe-options.js";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { toFlag } from "../base/shell.js";
import { parseScalar } from "../base/spec.js";
import { parseSplit } from "../tasks/index.js";

export function createIntegerParser(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(
      max === Number.MAX_SAFE_INTEGER
        ? `Expected an integer of at least ${min}.`
        : `Expected an integer from ${min} to ${max}.`,
    );
  };
}

export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a number.");
}

export function appendValue(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

function createChoiceParser(choices: readonly string[]): (text: string) => string {
  return (text) => {
    if (choices.includes(text)) return text;
    throw new InvalidArgumentError(`Expected ${choices.join(", ")}.`);
  };
}

/** Formats a default. 0.00005 is hard to read. */
function formatDefault(value: unknown): string {
  return typeof value === "number" && value > 0 && value < 1e-3 ? value.toExponential() : String(value);
}

/** Reads the schema of a key. If it can be null, its other type is described. */
export function readKeySchema(schema: z.ZodType): JsonSchema {
  const { anyOf, ...rest } = toJsonSchema(schema);
  return { ...anyOf?.[0], ...rest };
}

/** Limits of flags that are stricter than the schemas. */
const limits: Readonly<Record<string, Pick<JsonSchema, "minimum" | "maximum">>> = {
  // Fewer tokens do not leave room for both texts of a pair.
  maxLength: { minimum: 8 },
  threads: { maximum: 1024 },
  jobs: { maximum: 1024 },
  cpus: { maximum: 1024 },
  gpus: { maximum: 64 },
};

/**
 * Creates the flag of a key from its schema, so that descriptions, defaults and limits are written
 * once. `flags` is the placeholder of the value, or the complete flag if its name is not the key's.
 */
export function createOption(key: string, schema: z.ZodType, flags: string): Option {
  const found = { ...readKeySchema(schema), ...limits[key] };
  const { type, items, enum: choices, description = "", default: standard, whenNull } = found;
  const isEmpty = standard == null || (Array.isArray(standard) && standard.length === 0);
  const values = [isEmpty ? (whenNull ?? []) : standard]
    .flat()
    .filter((value) => typeof value !== "boolean")
    .map(formatDefault);
  const isRepeatable = items !== undefined && items.type !== "integer";
  const option = new Option(
    flags.startsWith("--") ? flags : `${toFlag(key)} ${flags}`.trim(),
    `${description}${values.length > 0 ? ` (default: ${values.join(", ")})` : ""}${isRepeatable ? "; repeatable" : ""}`,
  );
  option.attributeName = () => key;
  if (choices) option.argParser(createChoiceParser(choices));
  else if (type === "integer") {
    const { exclusiveMinimum = -1, minimum = exclusiveMinimum + 1, maximum = Number.MAX_SAFE_INTEGER } = found;
    option.argParser(createIntegerParser(minimum, maximum));
  } else if (type === "number") option.argParser(parseNumber);
  else if (isRepeatable) option.argParser(appendValue);
  return option;
}

/** Adds the flags of some keys of a request, each with the placeholder of its value. */
export function addOptions<
  Args extends unknown[],
  Options extends OptionValues,
  Shape extends z.ZodRawShape,
  Key extends string & keyof Shape,
>(command: Command<Args, Options>, shape: Shape, flags: Readonly<Record<Key, string>>) {
  for (const key of Object.keys(flags) as Key[])
    command.addOption(createOption(key, shape[key] as unknown as z.ZodType, flags[key]));
  return command as unknown as Command<Args, Options & { [K in Key]?: z.input<Shape[K]> }>;
}

/** Puts the flags that the short help of a request shows into their groups. */
export function groupOptions(options: readonly Option[], request: z.ZodType): void {
  const groups = Object.entries((request.meta()?.helpGroups ?? {}) as Readonly<Record<string, readonly string[]>>);
  for (const option of options) {
    const [group] = groups.find(([, keys]) => keys.includes(option.attributeName())) ?? [];
    if (group !== undefined) option.helpGroup(`${group}:`);
  }
}

/** The flags of keys that say where and how precisely a model is computed. */
export const runtimeFlags = { device: "<name>", precision: "<name>", threads: "<count>" };

/** The flags of keys that say which data a command reads. */
export const dataFlags = {
  task: "<name>",
  data: "<path>",
  textColumn: "<column>",
  labelColumn: "<column>",
  labelMap: "<value=label,…>",
  skipBadRows: "",
};

export const splitOption = (standard = "test") =>
  new Option("--split <name>", `dataset split to use: train, validation or test (default: ${standard})`).argParser(
    parseSplit,
  );

/** The attacks of a command. An unknown name is an error of the attack. */
export const attackOption = (description: string) =>
  new Option("--attack <name[:key=value,…]>", `${description}; repeatable (default: pwws)`).argParser<
    AttackReference[]
  >((name, before = []) => [...before, name as AttackReference]);

export const quietOption = () => new Option("--quiet", "print no progress and no warnings");

const endpointKeys = [...Object.keys(httpVictimSchema.omit({ headers: true }).shape), "header"];

/** The options of queries to an endpoint. Its value is an object for `endpoint` of a request. */
export const endpointOption = () =>
  new Option(
    "--endpoint <key=value>",
    `how to query an endpoint: ${endpointKeys.join(", ")} ("header=name: value"); repeatable`,
  ).argParser(parseEndpointOption);

function parseEndpointOption(assignment: string, before: z.input<typeof httpVictimSchema> = {}): typeof before {
  const [, key, value] = /^(\w+)=(.*)$/s.exec(assignment) ?? [];
  if (key === undefined || value === undefined)
    throw new UserError(`--endpoint: expected key=value, such as timeout=60, received "${assignment}".`);
  if (!endpointKeys.includes(key))
    throw new UserError(
      `--endpoint ${assignment}: unknown key${didYouMean(key, endpointKeys)}. The keys are ${endpointKeys.join(", ")}.`,
    );
  if (key !== "header") return { ...before, [key]: key === "unkToken" ? value : parseScalar(value) };
  const [, name, content] = /^([\w-]+):\s*(.*)$/.exec(value) ?? [];
  if (name === undefined) throw new UserError(`--endpoint: expected "header=name: value", received "${assignment}".`);
  return { ...before, headers: { ...before.headers, [name]: content ?? "" } };
}
