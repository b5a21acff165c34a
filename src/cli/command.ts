import type { Command } from "@commander-js/extra-typings";
import type { Io } from "./io.js";

/** What a verb's file exports: it gives its command arguments, options, examples and an action. */
export interface CommandModule {
  define(command: Command, io: Io): void;
}

/** A verb's way to end the process with a code other than 0 after it said all it had to say. */
export class ExitCode extends Error {
  constructor(readonly code: number) {
    super(`exit code ${code}`);
  }
}
