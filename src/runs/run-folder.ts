import { readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import {
  checkEntries,
  createFolder,
  exists,
  openRegularFile,
  readBytes,
  readJson,
  readText,
  writeFileAtomic,
} from "../base/files.js";
import { findLivingOwner } from "../base/lock.js";
import { readJsonIfExists, readJsonLines } from "../base/read-json.js";
import { findTrainedCertificate } from "../methods/index.js";
import { readModelConfig } from "../models/config.js";
import type { TrainedCertificate } from "../proofs/certificates/index.js";
import { formatMethodNames, type RunConfig } from "../settings/config.js";
import { readConfigFile } from "../settings/read-config.js";
import { type AttackFolder, readAttackFolder } from "./attack-folder.js";
import { type Environment, environmentSchema } from "./environment.js";
import { type Results, resultsSchema } from "./results.js";
import { files, findRunFolders, formatConfig, formatTaskName, getRunPath, type RunFile } from "./run-files.js";

const statusSchema = z.object({ steps: z.number().int().nonnegative(), failure: z.string().nullable() });

/**
 * The number of steps that the run will have, and the reason if it failed: the other files do not say it.
 */
export type RunStatus = z.output<typeof statusSchema>;

export type RunState = "running" | "stopped" | "finished" | "failed";

export interface RunEvent {
  readonly step: number;
  readonly best?: boolean;
  readonly evaluation?: Readonly<Record<string, number>>;
  readonly [key: string]: unknown;
}

const eventSchema = z.looseObject({ step: z.number() });
const timingSchema = z.object({ step: z.number(), seconds: z.number(), examples: z.number().optional() });

export interface SavedFigure {
  readonly title: string;
  readonly svg: Buffer;
  /** The summary of the analysis; null if its data cannot be read. */
  readonly summary: string | null;
}

export interface FinishedRun {
  readonly run: RunFolder;
  readonly results: Results;
}

/** This many bytes at the end of events.jsonl contain the last event. */
const eventTailBytes = 4096;

/**
 * Reads a run: one folder with a config, a trained model and everything measured on it. `RunWriter`
 * writes it, run-files.ts knows the names of its files, and `Run` adds the actions.
 */
export class RunFolder {
  protected constructor(
    readonly folder: string,
    readonly config: RunConfig,
  ) {}

  /** Opens a run folder, finished or not. */
  static async open(folder: string): Promise<RunFolder> {
    const path = join(folder, files.config);
    if (!(await exists(path)))
      throw new UserError(
        `${folder} is not a run: it has no ${files.config}. Expected a folder written by temper train.`,
      );
    // These files end up in reports and uploads. Checkpoints do not, and are often on another disk.
    const { checkpoints: _, ...shown } = files;
    await checkEntries(folder, Object.values(shown), "the run");
    const config = await readConfigFile(path);
    return new RunFolder(
      folder,
      config.data === files.data ? { ...config, data: resolve(folder, files.data) } : config,
    );
  }

  /**
   * The run whose model a folder contains: the run folder itself, its model/, or the folder of an
   * exported model. Null if the model has no run.
   */
  static async containing(folder: string): Promise<RunFolder | null> {
    const outer = basename(folder) === files.model ? dirname(folder) : folder;
    return (await exists(join(outer, files.config))) ? RunFolder.open(outer) : null;
  }

  /** Every run at or below the folders, each once, sorted by path. */
  static async find(folders: string | readonly string[]): Promise<RunFolder[]> {
    const found = new Map<string, string>();
    for (const folder of [folders].flat()) {
      const inside = await findRunFolders(folder);
      if (inside.length === 0)
        throw new UserError(
          `${folder}: no run found. Expected a folder with ${files.config}, as temper train writes it.`,
        );
      for (const each of inside) {
        // A symbolic link to a run that is named, too, is the same run.
        const path = await realpath(each);
        if (!found.has(path)) found.set(path, each);
      }
    }
    return Promise.all([...found.values()].map(RunFolder.open));
  }

  static async findFinished(folders: string | readonly string[]): Promise<FinishedRun[]> {
    const finished = new Map<string, FinishedRun>();
    for (const folder of [folders].flat()) {
      const runs = await RunFolder.find(folder);
      for (const run of runs) {
        const results = await run.results();
        if (results) finished.set(run.folder, { run, results });
      }
      if (!runs.some((run) => finished.has(run.folder)))
        throw new UserError(
          `${folder}: no run in it has finished. Continue with: temper train --resume --out ${runs[0]!.folder}`,
        );
    }
    return [...finished.values()];
  }

  path(file: RunFile): string {
    return getRunPath(this.folder, file);
  }

  /** The methods in one word, for tables and file names. */
  get method(): string {
    return formatMethodNames(this.config);
  }

  /** The task in one word, for tables and file names. */
  get task(): string {
    return formatTaskName(this.config);
  }

  /** The certificate that the model was trained for, or null. */
  get certificate(): TrainedCertificate | null {
    return findTrainedCertificate(this.config.methods);
  }

  configText(): Promise<string> {
    return readText(this.path("config"), "the run's config", { kind: "settings" });
  }

  async state(): Promise<RunState> {
    if (await this.results()) return "finished";
    if (findLivingOwner(this.path("lock")) !== null) return "running";
    return (await this.status())?.failure ? "failed" : "stopped";
  }

  async status(): Promise<RunStatus | null> {
    return readJsonIfExists(this.path("status"), statusSchema, "the run's status");
  }

  environment(): Promise<Environment | null> {
    return readJsonIfExists(this.path("environment"), environmentSchema, "the run's environment");
  }

  results(): Promise<Results | null> {
    return readResults(this.folder);
  }

  events(): Promise<RunEvent[]> {
    return readJsonLines(this.path("events"), eventSchema as z.ZodType<RunEvent>, "the run's events");
  }

  /**
   * The number of steps that a run has done; null before the first one. Reads only the end of the
   * events.
   */
  async progress(): Promise<{ readonly step: number; readonly steps: number } | null> {
    try {
      const status = await this.status();
      const file = await openRegularFile(this.path("events"), "the run's events", { kind: "lines" });
      try {
        const { size } = await file.stat();
        const start = Math.max(0, size - eventTailBytes);
        const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
        // The last line may be incomplete.
        const line = buffer.toString("utf8", 0, bytesRead).split("\n").at(-2) ?? "";
        const { step } = eventSchema.parse(JSON.parse(line));
        return { step, steps: status?.steps ?? step };
      } finally {
        await file.close();
      }
    } catch {
      return null;
    }
  }

  /** The time of each optimizer step, and its number of examples. */
  timings(): Promise<z.output<typeof timingSchema>[]> {
    return readJsonLines(this.path("timings"), timingSchema, "the run's timings");
  }

  /** The class names in the model's order; empty before the model is saved. */
  async labels(): Promise<readonly string[]> {
    // An exported model is in the folder itself.
    for (const model of [this.path("model"), this.folder])
      if (await exists(join(model, "config.json"))) return (await readModelConfig(model)).labels;
    return [];
  }

  attacks(): Promise<AttackFolder> {
    return readAttackFolder(this.path("attacks"));
  }

  async figures(): Promise<SavedFigure[]> {
    const folder = this.path("analysis");
    if (!(await exists(folder))) return [];
    const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".svg")).sort();
    return Promise.all(
      names.map(async (name) => ({
        title: basename(name, ".svg"),
        svg: await readBytes(join(folder, name), "the figure", { kind: "figure", root: this.folder }),
        summary: null,
        ...(await readTexts(this.folder, join(folder, name.replace(/svg$/, "json")))),
      })),
    );
  }
}

async function readTexts(root: string, path: string): Promise<Partial<Pick<SavedFigure, "title" | "summary">>> {
  try {
    const { title, summary } = (await readJson(path, "the data of the figure", { kind: "figure", root })) as Record<
      string,
      unknown
    >;
    return { ...(typeof title === "string" && { title }), ...(typeof summary === "string" && { summary }) };
  } catch {
    return {};
  }
}

export async function readResults(folder: string): Promise<Results | null> {
  return readJsonIfExists(getRunPath(folder, "results"), resultsSchema, "the run's results");
}

/**
 * Writes the config of a run that a sweep plans. A run that has started keeps the length and the
 * columns that it found, and a finished run keeps its config.
 */
export async function planRun(folder: string, config: RunConfig): Promise<void> {
  if (await exists(getRunPath(folder, "results"))) return;
  const path = getRunPath(folder, "config");
  const isStarted = await exists(getRunPath(folder, "environment"));
  const { maxLength, textColumn } = isStarted ? await readConfigFile(path) : config;
  createFolder(folder);
  await writeFileAtomic(path, formatConfig(folder, { ...config, maxLength, textColumn }));
}
