#!/usr/bin/env node
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, CommanderError } from "@commander-js/extra-typings";
import { getErrorMessage, Interrupted, isCudaOutOfMemory, isSystemError, UserError } from "../base/errors.js";
import { interruptedExitCode, onStopSignals } from "../base/processes.js";
import { formatCommandLine } from "../base/shell.js";
import { ExitCode, formatHelp, shortenHelp } from "./command.js";
import { commands } from "./command-list.js";
import { type Io, removeControls } from "./io.js";

/**
 * Runs a command line (without node and the program name). Returns the exit code: 0, 1 for a bug, 2
 * for a user error, 130 after a signal.
 */
export async function run(argv: readonly string[], io: Io = process): Promise<number> {
  let program: Command | null = null;
  try {
    program = await createProgram(argv, io);
    await program.parseAsync(argv, { from: "user" });
    return 0;
  } catch (error) {
    if (!(error instanceof Interrupted)) return reportError(error, io);
    const again = formatCommandLine(error.continueWith ?? ["temper", ...argv, ...listResumeFlags(program!, argv)]);
    io.stderr.write(removeControls(`\n${error.message}\nContinue with: ${again}\n`));
    return interruptedExitCode;
  }
}

/** The flag that continues the work of a command; none if the same command line does. */
function listResumeFlags(program: Command, argv: readonly string[]): string[] {
  const command = program.commands.find((each) => each.name() === argv[0]);
  const flags = command?.options.map(({ long }) => long) ?? [];
  const isNeeded =
    flags.includes("--resume") &&
    !flags.includes("--no-resume") &&
    !argv.some((word) => ["--resume", "--dry-run"].includes(word));
  return isNeeded ? ["--resume"] : [];
}

async function createProgram(argv: readonly string[], io: Io): Promise<Command> {
  const words = argv.filter((word) => !word.startsWith("-"));
  const requested = words[0] === "help" ? words[1] : words[0];
  const program = new Command("temper")
    .description(
      "Fine-tune encoders (BERT, DeBERTa, ModernBERT, …) as robust text classifiers, attack and analyze them.",
    )
    .version(readVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .commandsGroup("Start:")
    .helpCommand("help [command]", "print the help of a command")
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(removeControls(text)),
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
      outputError: (text, write) => write(text.replace(/^error: /, "temper: ")),
    })
    .exitOverride()
    .addHelpText(
      "after",
      "\nExamples:\n  $ temper try\n  $ temper harden --data reviews.csv\n  $ temper attack exported-model --task sst2\n",
    );
  for (const [name, { group, summary, hidden, load }] of Object.entries(commands)) {
    // A command inherits the settings of the program when it is created.
    const command = program
      .command(name, { hidden })
      .description(summary)
      .helpGroup(`${group}:`)
      .showHelpAfterError(`Run \`temper ${name} --help\` to see its options.`);
    if (name !== requested) continue;
    const { define, examples, note } = await load();
    define(command, io, commands);
    shortenHelp(command);
    if (!hidden) command.addHelpText("after", formatHelp(examples, note));
  }
  return program.showHelpAfterError("Run `temper --help` to see all commands.");
}

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  return version;
}

function reportError(error: unknown, { stderr }: Io): number {
  // Commander has already printed its message or the help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof ExitCode) return error.code;
  const isDebugging = Boolean(process.env.TEMPER_DEBUG) && error instanceof Error;
  if (isDebugging) stderr.write(`${error.stack}\n`);
  const message = getErrorMessage(error);
  stderr.write(removeControls(`temper: ${message}\n`));
  if (error instanceof UserError) return 2;
  if (isCudaOutOfMemory(error) || isCpuOutOfMemory(message)) {
    stderr.write("Reduce --batch-size or --max-length.\n");
    return 2;
  }
  if (isSystemError(error)) {
    stderr.write("The operating system reported this. Check the disk and the permissions, then try again.\n");
    return 2;
  }
  stderr.write(
    isDebugging
      ? "This is a bug in Temper.\n"
      : "This is a bug in Temper. Set TEMPER_DEBUG=1 to see the stack trace.\n",
  );
  return 1;
}

/** Recognizes the messages of the addon's own allocator. */
function isCpuOutOfMemory(message: string): boolean {
  return /does not fit: .* of memory are free|\bno memory for\b/i.test(message);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  // A reader that stops early (`| head`) is not an error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    void import("../base/files.js").then(({ createFileError }) =>
      process.exit(reportError(createFileError(error, "the output", "write"), process)),
    );
  });
  // A run goes on if nobody reads its progress any more.
  process.stderr.on("error", () => undefined);
  // When a sweep dies, its workers save their state and stop.
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel?.unref();
  // Without this, temporary files would stay, and the first process of a container would ignore signals. A worker or a
  // rank must end even while it waits for another process, when no listener can run.
  if (process.channel === undefined && process.env.RANK === undefined)
    onStopSignals((signal) => {
      // A command that saves its work has a listener of its own.
      if (process.listenerCount(signal) > 1) return;
      process.stderr.write(`\ntemper: Stopped by ${signal}. Nothing is half-written. Run the command again.\n`);
      process.exit(interruptedExitCode);
    });
  process.exitCode = await run(process.argv.slice(2));
}
