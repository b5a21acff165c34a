import { Command, type CommandUnknownOpts, InvalidArgumentError, type Option } from "@commander-js/extra-typings";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import type { SweepFile } from "../sweeps/read-sweep.js";
import * as analyze from "./commands/analyze.js";
import * as attack from "./commands/attack.js";
import type { Io } from "./io.js";

type OptionValues = Readonly<Record<string, string | number | boolean>>;
type KeyPath = readonly PropertyKey[];

/** The flags that a sweep's `then` hands on are asked of the verbs themselves, before hours of training lead up to them. */
export function checkSweepOptions({ settings: { evaluation: then }, locate: place }: SweepFile, io: Io): void {
  const attackCommand = new Command("temper attack");
  attack.define(attackCommand, io);
  checkOptions(attackCommand, then.options, ["then", "options"], place);
  const analyzeCommand = new Command("temper analyze");
  analyze.define(analyzeCommand, io);
  for (const [i, { kind, options }] of then.analyses.entries()) {
    const verb = analyzeCommand.commands.find((command) => command.name() === kind)!;
    checkOptions(verb, options, ["then", "analyses", i, "options"], place);
    const missing = verb.options.find((option) => option.mandatory && !(getOptionName(option) in options));
    if (missing)
      throw new UserError(
        `${place(["then", "analyses", i])}: ${kind} needs ${missing.flags} (${missing.description}): write options: { ${getOptionName(missing)}: … }`,
      );
  }
}

function checkOptions(
  verb: CommandUnknownOpts,
  flags: OptionValues,
  path: KeyPath,
  place: (path: KeyPath) => string,
): void {
  for (const [name, value] of Object.entries(flags)) {
    const problem = findOptionProblem(verb, name, value);
    if (problem !== null) throw new UserError(`${place([...path, name])}: ${name}: ${problem}`);
  }
}

/** What is wrong with a flag and its value, or null. */
function findOptionProblem(verb: CommandUnknownOpts, name: string, value: OptionValues[string]): string | null {
  const names = verb.options.map(getOptionName);
  const option = verb.options.find((each) => getOptionName(each) === name);
  if (!option) return `${verb.name()} has no such option${didYouMean(name, names)}; it has ${names.join(", ")}`;
  // A flag that is false is left out, so that a profile can take it back.
  if (value === false) return null;
  if (!option.required && !option.optional) return value === true ? null : `expected true or false, received ${value}`;
  if (value === true) return `expected a value (${option.flags}), received true`;
  try {
    option.parseArg?.(String(value), undefined);
    return null;
  } catch (error) {
    if (error instanceof InvalidArgumentError) return `received ${value}. ${error.message}`;
    throw error;
  }
}

/** A flag without its dashes. */
function getOptionName({ long }: Option): string {
  return (long ?? "").replace(/^--/, "");
}
