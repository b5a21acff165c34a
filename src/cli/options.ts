import { type Command, InvalidArgumentError, Option, type OptionValues } from "@commander-js/extra-typings";
import { z } from "zod";
import { httpVictimSchema } from "../attacks/http-victim.js";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { dataOptions } from "../runs/config.js";
import { runtimeOptions } from "../runs/runtime-config.js";
import { parseScalar } from "../spec.js";
import { parseSplit } from "../tasks/index.js";

/** Creates a parser for integers within bounds. */
export function createIntegerParser(min: number, max?: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= (max ?? Number.MAX_SAFE_INTEGER)) return value;
    throw new InvalidArgumentError(
      max === undefined ? `Expected an integer of at least ${min}.` : `Expected an integer from ${min} to ${max}.`,
    );
  };
}

export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw new InvalidArgumentError("Expected a number.");
}

/** Collects the values of an option that may be repeated. */
export function appendValue(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/**
 * The help text of an option from the schema of its key, so that descriptions and defaults are
 * written once.
 */
export function describeOption(schema: z.ZodType): string {
  const text = (schema.description ?? "").replace(/; null: (.+)$/, " (default: $1)");
  const value = schema instanceof z.ZodDefault ? schema.def.defaultValue : null;
  if (typeof value !== "string" && typeof value !== "number") return text;
  // 0.00005 is hard to read.
  const isSmall = typeof value === "number" && value > 0 && value < 1e-3;
  return `${text} (default: ${isSmall ? value.toExponential() : value})`;
}

/** An option with a text value. */
export const textOption = <Flags extends string>(flags: Flags, schema: z.ZodType) =>
  new Option(flags, describeOption(schema));

/** An option with a number. The schema of the request checks its range. */
export const numberOption = <Flags extends string>(flags: Flags, schema: z.ZodType) =>
  textOption(flags, schema).argParser(parseNumber);

/** An option with an integer. */
export const integerOption = <Flags extends string>(flags: Flags, schema: z.ZodType, min = 1, max?: number) =>
  textOption(flags, schema).argParser(createIntegerParser(min, max));

/** An option with one of a few values. The schema's description lists them. */
export const choiceOption = <Flags extends string, const Choice extends string>(
  flags: Flags,
  schema: z.ZodType,
  choices: readonly Choice[],
) =>
  textOption(flags, schema).argParser((text): Choice => {
    const choice = choices.find((each) => each === text);
    if (choice === undefined) throw new InvalidArgumentError(`Expected ${choices.join(", ")}.`);
    return choice;
  });

/** An option that may be repeated. */
export const listOption = <Flags extends string>(flags: Flags, schema: z.ZodType) =>
  new Option(flags, `${describeOption(schema)}; repeatable`).argParser(appendValue);

export const deviceOption = () => textOption("--device <name>", runtimeOptions.device);
const precisionOption = () => choiceOption("--precision <name>", runtimeOptions.precision, ["bf16", "tf32", "fp32"]);
export const threadsOption = () => integerOption("--threads <count>", runtimeOptions.threads, 1, 1024);

/** Where and how precisely a model is computed. */
export function addRuntimeOptions<Args extends unknown[], Options extends OptionValues>(
  command: Command<Args, Options>,
) {
  return command.addOption(deviceOption()).addOption(precisionOption()).addOption(threadsOption());
}

/** Which data a command reads. */
export function addDataOptions<Args extends unknown[], Options extends OptionValues>(command: Command<Args, Options>) {
  return command
    .addOption(textOption("--task <name>", dataOptions.task))
    .addOption(textOption("--data <path>", dataOptions.data))
    .addOption(listOption("--text-column <column>", dataOptions.textColumn))
    .addOption(textOption("--label-column <column>", dataOptions.labelColumn))
    .addOption(textOption("--skip-bad-rows", dataOptions.skipBadRows));
}

export const splitOption = () =>
  new Option("--split <name>", "dataset split to use: train, validation or test (default: test)").argParser(parseSplit);

/** Fewer tokens do not leave room for both texts of a pair. */
const minSequenceLength = 8;

export const maxLengthOption = (schema: z.ZodType) => integerOption("--max-length <tokens>", schema, minSequenceLength);
export const tokenizationOption = (schema: z.ZodType) =>
  choiceOption("--tokenization <name>", schema, ["subword", "word"]);

export const quietOption = () => new Option("--quiet", "print no progress and no warnings");
export const jsonOption = (what: string) => new Option("--json", what);

const endpointKeys = [...Object.keys(httpVictimSchema.omit({ headers: true }).shape), "header"];

/** How a command queries an endpoint. Its value is an object for `endpoint` of a request. */
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

/** Examples at the end of a command's help. */
export function formatHelpExamples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}
