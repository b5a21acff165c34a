import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { getErrorMessage } from "../errors.js";
import { createFileError, openForAppending, writeFileAtomic } from "../files.js";
import { describeCrash } from "../processes.js";
import type { Trust } from "../trust.js";
import { hashRequest } from "./hash-request.js";
import { temperProgram } from "./temper-program.js";
import { readWorkResult, type WorkRequest, type WorkResult } from "./work-request.js";

/** The request that a worker process executes, its file, and the file of the result. */
interface WorkFiles {
  readonly request: WorkRequest;
  readonly requestPath: string;
  readonly resultPath: string;
}

export interface WorkerOptions {
  /** Aborted: the worker saves its work and stops. */
  readonly stop?: AbortSignal | undefined;
  /** Aborted: the worker ends at once. */
  readonly kill?: AbortSignal | undefined;
  readonly environment?: Readonly<Record<string, string>>;
  readonly program?: readonly string[];
  /** Whether the worker may run the modules that the request names. Default: data. */
  readonly trust?: Trust;
}

/** Runs a worker process to its end. If it left no result, its end is recorded as a failure. */
export async function runWorker(
  { request, requestPath, resultPath }: WorkFiles,
  log: string,
  options: WorkerOptions = {},
): Promise<WorkResult> {
  const ending = await spawnWorker(["worker", requestPath, resultPath, ...formatTrust(options.trust)], log, options);
  const result = await readWorkResult(resultPath).catch(() => null);
  if (result) return result;
  const hash = hashRequest(request);
  if (options.stop?.aborted) return { format: 1, hash, status: "interrupted" };
  return recordFailure(resultPath, hash, `The worker process ended without a result (${ending}). Its log is ${log}.`);
}

/** The flag by which a worker gets the trust of the user. */
export function formatTrust(trust: Trust = "data"): string[] {
  return trust === "user" ? ["--allow-code"] : [];
}

/** Writes a result that says failed. */
export async function recordFailure(path: string, hash: string, message: string): Promise<WorkResult> {
  const result: WorkResult = { format: 1, hash, status: "failed", error: { message, isUserError: false } };
  await writeFileAtomic(path, `${JSON.stringify(result)}\n`);
  return result;
}

/**
 * Runs `temper` with the arguments and returns how it ended. The log is its stdout and stderr, so
 * it outlives us.
 */
async function spawnWorker(args: readonly string[], log: string, options: WorkerOptions): Promise<string> {
  const { stop, kill, environment = {}, program = temperProgram } = options;
  let file: number;
  try {
    file = openForAppending(log);
  } catch (error) {
    throw createFileError(error, log, "write");
  }
  try {
    return await new Promise((resolve) => {
      if (stop?.aborted) return resolve("stopped");
      const [command, ...words] = [...program, ...args] as [string, ...string[]];
      // In its own process group: Ctrl-C reaches only the sweep, which tells its workers once. A
      // closed channel tells a worker that the sweep has died.
      const child = spawn(command, words, {
        stdio: ["ignore", file, file, "ipc"],
        env: { ...process.env, ...environment },
        detached: true,
      });
      const onStop = (): void => void child.kill("SIGTERM");
      const onKill = (): void => void child.kill("SIGKILL");
      stop?.addEventListener("abort", onStop);
      kill?.addEventListener("abort", onKill);
      const finish = (ending: string): void => {
        stop?.removeEventListener("abort", onStop);
        kill?.removeEventListener("abort", onKill);
        resolve(ending);
      };
      child.once("error", (error) => finish(getErrorMessage(error)));
      child.once("exit", (code, signal) => finish(signal === null ? `exit code ${code}` : describeCrash(signal)));
    });
  } finally {
    closeSync(file);
  }
}
