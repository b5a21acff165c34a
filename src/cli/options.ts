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

export function readKeySchema(schema: z.ZodType): JsonSchema {
  const { anyOf, ...rest } = toJsonSchema(schema);
  const found = { ...anyOf?.[0], ...rest };
  // A boolean that can be null has both types.
  const [type] = [found.type ?? []].flat();
  return { ...found, ...(type !== undefined && { type }) };
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

/** What stands for the value of a flag, if its type says too little. */
const placeholders: Readonly<Record<string, readonly string[]>> = {
  "<address>": ["host"],
  "<column>": ["textColumn", "labelColumn", "slices"],
  "<file>": ["trainData", "validationData", "testData", "lmConstraint", "vectors", "saveDataset", "lock", "vocabulary"],
  "<folder>": ["out"],
  "<fraction>": ["maxModificationRate"],
  "<journal>": ["transferFrom"],
  "<key=value>": ["set"],
  "<key>": ["apiKey"],
  "<kind>": ["protectedText"],
  "<label>": ["positiveLabel", "attackedLabel"],
  "<limit>": ["time"],
  "<model>": ["sentenceEncoder", "maskedLm"],
  "<name[:key=value,…]>": ["kind", "method"],
  "<number>": ["seed", "port"],
  "<path>": ["data", "scores"],
  "<percent>": ["minRobust", "minCertified"],
  "<points>": ["maxDrop", "maxCleanDrop"],
  "<probability>": ["threshold"],
  "<queries>": ["queryBudget", "queriesPerWord"],
  "<rate>": ["learningRate", "fpr"],
  "<reference>": ["model"],
  "<regex>": ["protect"],
  "<seconds>": ["timeout"],
  "<size>": ["memory"],
  "<table>": ["substitutions"],
  "<text>": ["title", "message"],
  "<texts>": ["budget"],
  "<tokens>": ["maxLength"],
  "<value=label,…>": ["labelMap"],
  "<words>": ["windows"],
};
const typePlaceholders: Readonly<Record<string, string>> = { boolean: "", integer: "<count>", number: "<number>" };

function getPlaceholder(key: string, type = "string"): string {
  const [named] = Object.entries(placeholders).find(([, keys]) => keys.includes(key)) ?? [];
  return named ?? typePlaceholders[type] ?? "<name>";
}

/**
 * Creates the flag of a key from its schema, so that descriptions, defaults and limits are written
 * once. `flag` replaces a flag with the name of the key: "--attack <name>" of "attacks".
 */
export function createOption(key: string, schema: z.ZodType, flag?: string): Option {
  const found = { ...readKeySchema(schema), ...limits[key] };
  const { type, items, enum: choices, description = "", default: standard, whenNull } = found;
  const isEmpty = standard == null || (Array.isArray(standard) && standard.length === 0);
  const values = [isEmpty ? (whenNull ?? []) : standard]
    .flat()
    .filter((value) => typeof value !== "boolean")
    .map(formatDefault);
  const isRepeatable = items !== undefined && items.type !== "integer";
  const option = new Option(
    flag ?? `${toFlag(key)} ${getPlaceholder(key, type)}`.trim(),
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

export function addOptions<
  Args extends unknown[],
  Options extends OptionValues,
  Shape extends z.ZodRawShape,
  Omitted extends string & keyof Shape = never,
>(
  command: Command<Args, Options>,
  shape: Shape,
  omitted: readonly Omitted[] = [],
  flags?: Readonly<Partial<Record<string & keyof Shape, string>>>,
) {
  for (const [key, schema] of Object.entries(shape))
    if (!omitted.includes(key as Omitted))
      command.addOption(createOption(key, schema as unknown as z.ZodType, flags?.[key]));
  return command as unknown as Command<
    Args,
    Options & { [Key in Exclude<keyof Shape & string, Omitted>]?: z.input<Shape[Key]> }
  >;
}

/** Puts the flags that the short help of a request shows into their groups, in the order of the groups. */
export function groupOptions(options: readonly Option[], request: z.ZodType): void {
  const groups = Object.entries((request.meta()?.helpGroups ?? {}) as Readonly<Record<string, readonly string[]>>);
  const keys = groups.flatMap(([, own]) => own);
  for (const option of options) {
    const [group] = groups.find(([, own]) => own.includes(option.attributeName())) ?? [];
    if (group !== undefined) option.helpGroup(`${group}:`);
  }
  (options as Option[]).sort((a, b) => keys.indexOf(a.attributeName()) - keys.indexOf(b.attributeName()));
}

export const attackFlag = "--attack <name[:key=value,…]>";

export const splitOption = (standard = "test") =>
  new Option("--split <name>", `dataset split to use: train, validation or test (default: ${standard})`).argParser(
    parseSplit,
  );

/** The attacks of a command. An unknown name is an error of the attack. */
export const attackOption = (description: string) =>
  new Option(attackFlag, `${description}; repeatable (default: pwws)`).argParser<AttackReference[]>(
    (name, before = []) => [...before, name as AttackReference],
  );

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
