import { Command, type CommandUnknownOpts, InvalidArgumentError, type Option } from "@commander-js/extra-typings";
import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import type { SweepFile } from "../sweeps/read-sweep.js";
import * as analyze from "./analyze.js";
import * as attack from "./attack.js";
import type { Io } from "./io.js";

type Flags = Readonly<Record<string, string | number | boolean>>;
type Path = readonly PropertyKey[];

/** The flags that a sweep's `then` hands on are asked of the verbs themselves, before hours of training lead up to them. */
export function checkFlags({ settings: { then }, place }: SweepFile, io: Io): void {
  const attackVerb = new Command("temper attack");
  attack.define(attackVerb, io);
  checkEach(attackVerb, then.options, ["then", "options"], place);
  const analyzeVerb = new Command("temper analyze");
  analyze.define(analyzeVerb, io);
  for (const [i, { kind, options }] of then.analyses.entries()) {
    const verb = analyzeVerb.commands.find((command) => command.name() === kind)!;
    checkEach(verb, options, ["then", "analyses", i, "options"], place);
    const missing = verb.options.find((option) => option.mandatory && !(nameOf(option) in options));
    if (missing)
      throw new UserError(
        `${place(["then", "analyses", i])}: ${kind} needs ${missing.flags} (${missing.description}): write options: { ${nameOf(missing)}: … }`,
      );
  }
}

function checkEach(verb: CommandUnknownOpts, flags: Flags, path: Path, place: (path: Path) => string): void {
  for (const [name, value] of Object.entries(flags)) {
    const problem = problemOf(verb, name, value);
    if (problem !== null) throw new UserError(`${place([...path, name])}: ${name}: ${problem}`);
  }
}

/** What is wrong with a flag and its value, or null. */
function problemOf(verb: CommandUnknownOpts, name: string, value: Flags[string]): string | null {
  const names = verb.options.map(nameOf);
  const option = verb.options.find((each) => nameOf(each) === name);
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
function nameOf({ long }: Option): string {
  return (long ?? "").replace(/^--/, "");
}
