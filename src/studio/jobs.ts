import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { createFolder, openForAppending, readText, writeFileAtomic } from "../base/files.js";
import { findLivingOwner, formatOwner } from "../base/lock.js";
import { readJsonIfExists } from "../base/read-json.js";
import { temperProgram } from "../jobs/temper-program.js";
import { readWorkRequest, readWorkResult, workProgressSchema } from "../jobs/work-request.js";
import { HttpError } from "../serve/http.js";
import type { JobRow, JobState } from "./api.js";
import { type CheckedForm, checkStoredRequest, formatJobCommand } from "./check-form.js";

/**
 * The files of a job. Together they say everything, so a new studio finds the jobs of the last one.
 */
const files = {
  job: "job.json",
  request: "request.json",
  result: "result.json",
  progress: "progress.json",
  process: "process.json",
  log: "log.txt",
} as const;

const jobSchema = z.object({ started: z.string() });
const idPattern = /^\d{14}-[0-9a-f]{6}$/;
const logTailCharacters = 4000;

/** Jobs are processes of their own. Neither the page nor the server is needed for them to go on. */
export class JobStore {
  /** Jobs write only below `outputs`. */
  constructor(
    readonly folder: string,
    readonly outputs: readonly string[],
  ) {}

  async start(request: NonNullable<CheckedForm["request"]>): Promise<string> {
    const started = new Date().toISOString();
    const id = `${started.replace(/\D/g, "").slice(0, 14)}-${randomBytes(3).toString("hex")}`;
    createFolder(this.#path(id));
    await writeFileAtomic(this.#path(id, "request"), `${JSON.stringify(request, null, 2)}\n`);
    await writeFileAtomic(this.#path(id, "job"), `${JSON.stringify({ started })}\n`);
    await this.#spawn(id);
    return id;
  }

  /** Asks a job to save its work and stop. */
  async stop(id: string): Promise<void> {
    const owner = findLivingOwner(await this.#check(id, "process"));
    if (owner) process.kill(owner.pid, "SIGTERM");
  }

  /** Continues a job that was stopped or has failed. Requests of workers always resume. */
  async resume(id: string): Promise<void> {
    if (findLivingOwner(await this.#check(id, "process"))) return;
    checkStoredRequest(await readWorkRequest(this.#path(id, "request")), this.outputs);
    await rm(this.#path(id, "result"), { force: true });
    await this.#spawn(id);
  }

  async readLog(id: string): Promise<string> {
    const path = await this.#check(id, "log");
    return (await readText(path, "the log", { kind: "lines" }).catch(() => "")).slice(-logTailCharacters);
  }

  async list(findRun: (folder: string) => Promise<string | null>): Promise<JobRow[]> {
    const ids = (await this.#listIds()).sort().reverse();
    const jobs = await Promise.all(ids.map((id) => this.#read(id, findRun).catch(() => null)));
    return jobs.filter((job) => job !== null);
  }

  async #read(id: string, findRun: (folder: string) => Promise<string | null>): Promise<JobRow | null> {
    const job = await readJsonIfExists(this.#path(id, "job"), jobSchema, "the job");
    if (!job) return null;
    const request = await readWorkRequest(this.#path(id, "request"));
    if (request.kind !== "train" && request.kind !== "attack" && request.kind !== "harden") return null;
    const result = await readWorkResult(this.#path(id, "result")).catch(() => null);
    const isAlive = findLivingOwner(this.#path(id, "process")) !== null;
    const states = { done: "finished", failed: "failed", interrupted: "stopped" } as const;
    const state: JobState = isAlive ? "running" : result ? states[result.status] : "stopped";
    const path = this.#path(id, "progress");
    const progress = await readJsonIfExists(path, workProgressSchema, "the progress").catch(() => null);
    const runs = { train: request.out, harden: join(request.out, "robust"), attack: "" };
    const run = request.kind === "attack" ? request.model : runs[request.kind];
    const error = state === "failed" ? (result?.error?.message ?? null) : null;
    // The title and the command say what the request will do, whoever wrote it.
    const titles = { train: request.out, harden: `harden ${request.out}`, attack: `attack ${run}` };
    const title = titles[request.kind];
    const command = formatJobCommand(request);
    return { id, kind: request.kind, title, command, ...job, state, progress, error, run: await findRun(run) };
  }

  /** The job gets its own process group and writes to files, so it outlives the server. */
  async #spawn(id: string): Promise<void> {
    const log = openForAppending(this.#path(id, "log"));
    const [program, ...words] = [
      ...temperProgram,
      "worker",
      this.#path(id, "request"),
      this.#path(id, "result"),
    ].concat("--progress", this.#path(id, "progress"), "--outputs", this.outputs);
    const child = spawn(program!, words, { detached: true, stdio: ["ignore", log, log] });
    closeSync(log);
    const pid = await new Promise<number>((resolve, reject) => {
      child.once("spawn", () => resolve(child.pid!));
      child.once("error", reject);
    });
    child.unref();
    await writeFileAtomic(this.#path(id, "process"), formatOwner(pid));
  }

  async #check(id: string, file: keyof typeof files): Promise<string> {
    if (!(await this.#listIds()).includes(id)) throw new HttpError(404, "There is no such job.");
    return this.#path(id, file);
  }

  /** The folders that a studio made. A link could lead to the files of others. */
  async #listIds(): Promise<string[]> {
    const entries = await readdir(this.folder, { withFileTypes: true }).catch(() => []);
    return entries.filter((entry) => entry.isDirectory() && idPattern.test(entry.name)).map(({ name }) => name);
  }

  #path(id: string, file?: keyof typeof files): string {
    return join(this.folder, id, file ? files[file] : "");
  }
}
