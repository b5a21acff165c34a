import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { createFileError, exists } from "../files.js";
import { findLivingOwner } from "../lock.js";
import { validate } from "../validate.js";
import { runConfigSchema } from "./config.js";
import { getMethodName, getTaskName } from "./names.js";
import { readYaml } from "./read-config.js";
import { readEvents } from "./read-events.js";
import { readResults } from "./results.js";
import { readStatus, runFiles } from "./run-folder.js";

export type RunState = "running" | "stopped" | "finished" | "failed" | "damaged";

/** A run as a list shows it; of a damaged one only the folder is known, and the reason. */
export interface RunSummary {
  readonly folder: string;
  readonly task: string | null;
  readonly method: string | null;
  readonly seed: number | null;
  readonly state: RunState;
  readonly step: number;
  readonly steps: number | null;
  /** Accuracy on the split that reports; null before the run has finished. */
  readonly score: number | null;
  /** The best value so far of the metric that selects, and its name. */
  readonly selected: number | null;
  readonly selectBy: string | null;
  /** Why it failed, or what is damaged. */
  readonly failure: string | null;
}

/** Folders that a search goes down at most: runs/TASK/METHOD/seed0. */
const maxSearchDepth = 3;

/** The runs in a folder and below, by path; one that cannot be read hides no other. */
export async function listRuns(folder: string): Promise<RunSummary[]> {
  const found = await findRuns(folder, maxSearchDepth);
  return Promise.all(
    found.sort().map((run) => summarizeRun(run).catch((error: unknown) => createDamagedSummary(run, error))),
  );
}

async function findRuns(folder: string, depth: number): Promise<string[]> {
  if (await isRunFolder(folder)) return [folder];
  if (depth === 0) return [];
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw createFileError(error, folder, "read");
  });
  const inner = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  return (await Promise.all(inner.map((entry) => findRuns(join(folder, entry.name), depth - 1)))).flat();
}

async function isRunFolder(folder: string): Promise<boolean> {
  return (await exists(join(folder, runFiles.config))) && (await exists(join(folder, runFiles.environment)));
}

async function summarizeRun(folder: string): Promise<RunSummary> {
  const located = await readYaml(join(folder, runFiles.config));
  const config = validate(runConfigSchema, located.value, located.where);
  const { metricForBestModel: selectBy } = config.train;
  const [results, status, events] = await Promise.all([readResults(folder), readStatus(folder), readEvents(folder)]);
  const best = events.findLast((event) => event.best === true)?.evaluation?.[selectBy];
  const running = findLivingOwner(join(folder, runFiles.lock)) !== null;
  return {
    folder,
    task: results?.task ?? getTaskName(config),
    method: getMethodName(config),
    seed: config.seed,
    state: results ? "finished" : running ? "running" : status?.failure ? "failed" : "stopped",
    step: results?.steps ?? events.at(-1)?.step ?? 0,
    steps: status?.steps ?? null,
    score: results?.test.accuracy ?? null,
    selected: best ?? null,
    selectBy,
    failure: results || running ? null : (status?.failure ?? null),
  };
}

function createDamagedSummary(folder: string, error: unknown): RunSummary {
  if (!(error instanceof UserError)) throw error;
  return {
    ...{ folder, task: null, method: null, seed: null, state: "damaged" },
    ...{ step: 0, steps: null, score: null, selected: null, selectBy: null, failure: error.message },
  };
}
