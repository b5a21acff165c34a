import type { Command } from "@commander-js/extra-typings";
import type { Io } from "./io.js";

/**
 * What the file of a command exports. It adds arguments, options, examples and an action to its
 * command.
 */
export interface CommandModule {
  define(command: Command, io: Io, all: Readonly<Record<string, CommandEntry>>): void;
  /** Command lines for the end of the help. */
  readonly examples: readonly string[];
  /** Text of the help before the examples. */
  readonly note?: string;
}

/** A command before its file is loaded. */
export interface CommandEntry {
  readonly summary: string;
  readonly hidden?: boolean;
  load(): Promise<CommandModule>;
}

/** Ends the process with a code other than 0 after a command has printed everything. */
export class ExitCode extends Error {
  constructor(readonly code: number) {
    super(`exit code ${code}`);
  }
}

/** What follows the options in the help of a command: notes, then examples. */
export function formatHelp(examples: readonly string[], note = ""): string {
  return `${note && `\n${note}\n`}\nExamples:\n${examples.map((line) => `  $ ${line}`).join("\n")}\n`;
}
