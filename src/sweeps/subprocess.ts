import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createFileError, exists, readText, writeFileAtomic } from "../files.js";
import { packageRoot } from "../tensor/native.js";

/** One command of a sweep, in a process of its own; done when its output, a file of JSON, is whole. */
export interface SubprocessCommand {
  readonly name: string;
  /** The words after `temper`. */
  readonly argv: readonly string[];
  readonly output: string;
  /** True where the command prints the output; false where it writes the file itself. */
  readonly prints: boolean;
  /** Whether the output is of all that the step does; one of an earlier, smaller plan may be there. */
  readonly isComplete?: (output: unknown) => boolean;
}

export type SubprocessResult =
  | { readonly state: "done" }
  | { readonly state: "interrupted" }
  | { readonly state: "failed"; readonly error: string };

/** What a program returns that saved all and stopped because it was told to. */
export const interruptedExitCode = 130;

/** The program that a step's process runs. */
export const temperProgram: readonly string[] = [process.execPath, join(packageRoot, "dist", "cli", "main.js")];

/** The whole of the error matters, the log of hours does not. */
const tailBytes = 4096;

export async function isCommandDone({ output, isComplete: whole }: SubprocessCommand): Promise<boolean> {
  if (!(await exists(output))) return false;
  try {
    const content: unknown = JSON.parse(await readText(output, "the output"));
    return whole?.(content) ?? true;
  } catch {
    return false;
  }
}

export interface SubprocessOptions {
  /** Where all that it says goes. */
  readonly log: string;
  /** Aborted: the process is told to save and stop. */
  readonly stop?: AbortSignal | undefined;
  /** Aborted: it is ended at once. */
  readonly kill?: AbortSignal | undefined;
  readonly environment?: Readonly<Record<string, string>>;
  readonly program?: readonly string[];
}

/** Runs a step once. Never throws for what the step does; a crash of its process is a failed step. */
export async function runSubprocess(command: SubprocessCommand, options: SubprocessOptions): Promise<SubprocessResult> {
  const { log, stop } = options;
  const printed = `${command.output}.part`;
  let [logFile, outputFile] = [-1, -1];
  try {
    mkdirSync(dirname(log), { recursive: true });
    mkdirSync(dirname(command.output), { recursive: true });
    logFile = openSync(log, "a");
    if (command.prints) outputFile = openSync(printed, "w");
  } catch (error) {
    return { state: "failed", error: createFileError(error, log, "write").message };
  }
  const start = statSync(log).size;
  const end = await spawnCommand(command.argv, outputFile >= 0 ? outputFile : logFile, logFile, options);
  closeSync(logFile);
  if (outputFile >= 0) closeSync(outputFile);
  try {
    if (end === 0 && command.prints) await writeFileAtomic(command.output, await readText(printed, "the output"));
  } catch (error) {
    return { state: "failed", error: createFileError(error, command.output, "write").message };
  } finally {
    rmSync(printed, { force: true });
  }
  if (end === 0 && (await isCommandDone(command))) return { state: "done" };
  if (stop?.aborted || end === interruptedExitCode) return { state: "interrupted" };
  return { state: "failed", error: await readErrorFromLog(log, start, end) };
}

/** Runs a command to its end: its exit code, or the signal or mistake that ended it. The file descriptors are its own: it survives us. */
function spawnCommand(
  argv: readonly string[],
  stdout: number,
  stderr: number,
  options: SubprocessOptions,
): Promise<number | string> {
  const { stop, kill, environment = {}, program: command = temperProgram } = options;
  return new Promise((resolve) => {
    if (stop?.aborted) return resolve(interruptedExitCode);
    const [program, ...words] = [...command, ...argv] as [string, ...string[]];
    // In a group of its own: a Ctrl-C reaches the sweep alone, which tells its runs once. By the channel a run learns that we died.
    const child = spawn(program, words, {
      stdio: ["ignore", stdout, stderr, "ipc"],
      env: { ...process.env, ...environment },
      detached: true,
    });
    const onStop = (): void => void child.kill("SIGTERM");
    const onKill = (): void => void child.kill("SIGKILL");
    stop?.addEventListener("abort", onStop);
    kill?.addEventListener("abort", onKill);
    const finish = (end: number | string): void => {
      stop?.removeEventListener("abort", onStop);
      kill?.removeEventListener("abort", onKill);
      resolve(end);
    };
    child.once("error", (error) => finish(error.message));
    child.once("exit", (code, signal) => finish(code ?? `it was ended by ${signal}`));
  });
}

/** What a failed process said last; commands begin their errors with the program's name. */
async function readErrorFromLog(log: string, start: number, end: number | string): Promise<string> {
  const file = await open(log, "r");
  try {
    const { size } = await file.stat();
    const from = Math.max(start, size - tailBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const lines = buffer.toString("utf8", 0, bytesRead).trim().split("\n");
    const first = lines.findLastIndex((line) => line.startsWith("temper: "));
    const said = (first < 0 ? lines.slice(-3) : lines.slice(first)).join("\n").replace(/^temper: /, "");
    const how = typeof end === "number" ? `exit code ${end}` : end;
    return said === "" ? how : typeof end === "number" && end === 2 ? said : `${said} (${how})`;
  } finally {
    await file.close();
  }
}
