import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { appendFileSync, closeSync, existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { getErrorMessage } from "../base/errors.js";
import { createFileError, openForAppending } from "../base/files.js";
import { describeCrash } from "../base/processes.js";
import { writeJson } from "../base/read-json.js";
import type { Trust } from "../base/trust.js";
import { temperProgram } from "./temper-program.js";
import { hashRequest, readWorkResult, type WorkFiles, type WorkRequest, type WorkResult } from "./work-request.js";

export interface Work extends WorkFiles {
  readonly request: WorkRequest;
}

export const attackProcessesVariable = "TEMPER_ATTACK_PROCESSES";

export interface WorkerSettings {
  readonly environment?: Readonly<Record<string, string>> | undefined;
  readonly program?: readonly string[] | undefined;
  /** True if the worker may run the modules that a request names. Default: data. */
  readonly trust?: Trust | undefined;
  /** The time that a worker may take to answer after its result, or to end. */
  readonly patienceMilliseconds?: number;
}

/** The driver of a GPU may need seconds to free its memory. */
const defaultPatienceMilliseconds = 30_000;

export interface WorkSignals {
  /** Aborted: the worker saves its work and stops. */
  readonly stop?: AbortSignal | undefined;
  /** Aborted: the worker ends at once. */
  readonly kill?: AbortSignal | undefined;
}

/**
 * A worker process that executes requests one after the other, so that libtorch starts once. A
 * request that fails ends it, so the next one gets a new process.
 */
export class Worker {
  readonly #settings: WorkerSettings;
  #child: ChildProcess | null = null;
  #ending: Promise<string> = Promise.resolve("");
  #log: number | null = null;

  constructor(settings: WorkerSettings = {}) {
    this.#settings = settings;
  }

  /** Executes a request and logs what it prints. An end without a result is recorded as a failure. */
  async execute(work: Work, log: string, signals: WorkSignals = {}): Promise<WorkResult> {
    const { request, requestPath, resultPath } = work;
    const hash = hashRequest(request);
    const interrupted: WorkResult = { format: 1, hash, status: "interrupted" };
    if (signals.stop?.aborted) return interrupted;
    this.#log = openLog(log);
    this.#print(`# ${new Date().toISOString()} ${requestPath}\n`);
    try {
      const ending = await this.#send({ requestPath, resultPath }, signals);
      const result = await readWorkResult(resultPath).catch(() => null);
      if (result?.status !== "done") await this.close();
      if (result) return result;
      if (signals.stop?.aborted) return interrupted;
      const message = `The worker process ended without a result (${ending}). Its log is ${log}.`;
      const failure: WorkResult = { format: 1, hash, status: "failed", error: { message, isUserError: false } };
      await writeJson(resultPath, failure);
      return failure;
    } finally {
      closeSync(this.#log);
      this.#log = null;
    }
  }

  /**
   * Lets the worker end by itself. If a process that uses a GPU together with others is killed, the others may
   * wait for it forever.
   */
  async close(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    child.send("end", () => undefined);
    const timer = setTimeout(() => child.kill("SIGKILL"), this.#patience);
    await this.#ending;
    clearTimeout(timer);
  }

  get #patience(): number {
    return this.#settings.patienceMilliseconds ?? defaultPatienceMilliseconds;
  }

  /** Kills a worker that has written its result, but does not answer: it is stuck in the driver of its GPU. */
  #watch(child: ChildProcess, resultPath: string): NodeJS.Timeout {
    let waited = 0;
    const interval = Math.min(1000, this.#patience);
    return setInterval(() => {
      if (existsSync(resultPath)) waited += interval;
      if (waited > this.#patience) child.kill("SIGKILL");
    }, interval);
  }

  async #send(files: WorkFiles, { stop, kill }: WorkSignals): Promise<string> {
    this.#child ??= this.#start();
    const child = this.#child;
    const timer = this.#watch(child, files.resultPath);
    const onStop = (): void => void child.kill("SIGTERM");
    const onKill = (): void => void child.kill("SIGKILL");
    stop?.addEventListener("abort", onStop);
    kill?.addEventListener("abort", onKill);
    try {
      const done = new Promise<string>((resolve) => child.once("message", () => resolve("")));
      // If the process has ended, its end says why.
      child.send(files, () => undefined);
      return await Promise.race([done, this.#ending]);
    } finally {
      clearInterval(timer);
      child.removeAllListeners("message");
      stop?.removeEventListener("abort", onStop);
      kill?.removeEventListener("abort", onKill);
    }
  }

  /** If the disk is full, the worker reports it. */
  #print(text: string | Buffer): void {
    try {
      if (this.#log !== null) appendFileSync(this.#log, text);
    } catch {
      return;
    }
  }

  #start(): ChildProcess {
    const { environment = {}, program = temperProgram, trust } = this.#settings;
    const [command, ...words] = [...program, "worker", ...formatTrust(trust)] as [string, ...string[]];
    // In its own process group: Ctrl-C reaches only this process, which tells its workers once. A
    // closed channel tells a worker that this process has died.
    const child = spawn(command, words, {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: { ...process.env, ...environment },
      detached: true,
    });
    child.stdout!.on("data", (chunk: Buffer) => this.#print(chunk));
    child.stderr!.on("data", (chunk: Buffer) => this.#print(chunk));
    this.#ending = new Promise((resolve) => {
      child.on("error", (error) => resolve(getErrorMessage(error)));
      // After its exit, and after all that it printed has been read.
      child.once("close", (code, signal) => resolve(signal === null ? `exit code ${code}` : describeCrash(signal)));
    });
    void this.#ending.then(() => {
      if (this.#child === child) this.#child = null;
    });
    return child;
  }
}

export async function runWorker(
  work: Work,
  log: string,
  settings: WorkerSettings = {},
  signals: WorkSignals = {},
): Promise<WorkResult> {
  const worker = new Worker(settings);
  try {
    return await worker.execute(work, log, signals);
  } finally {
    await worker.close();
  }
}

function openLog(path: string): number {
  try {
    return openForAppending(path);
  } catch (error) {
    throw createFileError(error, path, "write");
  }
}

export function formatTrust(trust: Trust = "data"): string[] {
  return trust === "user" ? ["--allow-code"] : [];
}

/** The environment of each concurrent worker: its own GPU, or its part of the cores. */
export function createWorkerEnvironments(isCpuOnly: boolean, jobs: number | null): Record<string, string>[] {
  const gpus = isCpuOnly ? [] : listVisibleGpus();
  const count = jobs ?? Math.max(1, gpus.length);
  return Array.from({ length: count }, (_, i): Record<string, string> => {
    const gpu = gpus.length === 0 ? {} : { CUDA_VISIBLE_DEVICES: gpus[i % gpus.length]! };
    // A worker that waits for a shared GPU leaves its core to the others.
    const shared = gpus.length > 0 && count > gpus.length ? { TEMPER_SHARED_GPU: "1" } : {};
    if (count === 1 || process.env.OMP_NUM_THREADS) return { ...gpu, ...shared };
    const threads = Math.max(1, Math.floor(availableParallelism() / count));
    return { ...gpu, ...shared, OMP_NUM_THREADS: String(threads) };
  });
}

/** The GPUs for CUDA_VISIBLE_DEVICES, from the driver, because the engine would occupy one. */
function listVisibleGpus(): string[] {
  const visible = process.env.CUDA_VISIBLE_DEVICES;
  if (visible !== undefined) return visible.split(",").filter((name) => name !== "" && name !== "-1");
  const { status, stdout } = spawnSync("nvidia-smi", ["--query-gpu=index", "--format=csv,noheader"], {
    encoding: "utf8",
  });
  return status === 0 ? stdout.split("\n").filter((line) => /^\d+$/.test(line)) : [];
}
