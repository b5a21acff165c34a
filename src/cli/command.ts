import type { AddHelpTextContext, Command } from "@commander-js/extra-typings";
import type { Io } from "./io.js";

export interface CommandModule {
  define(command: Command, io: Io, all: Readonly<Record<string, CommandEntry>>): void;
  readonly examples: readonly string[];
  readonly note?: string;
}

export interface CommandEntry {
  readonly group: string;
  readonly summary: string;
  readonly hidden: boolean;
  load(): Promise<CommandModule>;
}

/** Ends the process with a code other than 0 after a command has printed everything. */
export class ExitCode extends Error {
  constructor(readonly code: number) {
    super(`exit code ${code}`);
  }
}

/**
 * If options of a command are in groups, --help shows only these, and --help-all the others, too.
 */
export function shortenHelp(command: Command): void {
  const rest = command.options.filter(({ helpGroupHeading }) => helpGroupHeading === undefined);
  if (rest.length === command.options.length) return;
  for (const option of rest) option.hideHelp().helpGroup("More options:");
  command.option("--help-all", `print the other ${rest.length} options, too`).on("option:help-all", () => {
    for (const option of rest) option.hideHelp(false);
    command.help();
  });
}

/** The end of a command's help. The note is as wide as the terminal; examples are not broken, so that they can be copied. */
export function formatHelp(examples: readonly string[], note = ""): (context: AddHelpTextContext) => string {
  return ({ command, error }) => {
    const { getErrHelpWidth, getOutHelpWidth } = command.configureOutput();
    const wrapped = command.createHelp().boxWrap(note, (error ? getErrHelpWidth : getOutHelpWidth)!());
    return `${note && `\n${wrapped}\n`}\nExamples:\n${examples.map((line) => `  $ ${line}`).join("\n")}\n`;
  };
}
