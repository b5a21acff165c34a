import { appendFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, exists, readJson, writeFileAtomic } from "../files.js";
import { findLivingOwner, tryLock } from "../lock.js";
import { runFiles } from "../runs/run-folder.js";
import { formatCommandLine } from "../shell.js";
import { validate } from "../validate.js";
import { createEvaluationCommands, createFigureCommands, createTrainCommand } from "./evaluation-commands.js";
import type { SweepCell } from "./expand.js";
import { getRunFolder, type SweepPlan } from "./plan.js";
import { selectBest } from "./select-best.js";
import { isCommandDone, runSubprocess, type SubprocessCommand, type SubprocessOptions } from "./subprocess.js";

/** A piece of a sweep that one process slot, or one job of a cluster, works on. */
export const workItemSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("train"), run: z.string() }),
  /** What is measured on the chosen run of a cell, one seed of it. */
  z.object({ kind: z.literal("measure"), row: z.string(), column: z.string(), seed: z.number() }),
  z.object({ kind: z.literal("figure"), number: z.number(), column: z.string() }),
]);
export type WorkItem = z.output<typeof workItemSchema>;

type AnalysisSettings = SweepPlan["settings"]["evaluation"]["analyses"][number];

export type WorkItemResult =
  /** Blocked: what it would work on failed before. */
  | { readonly state: "done" | "interrupted" | "blocked" }
  /** `command` does the failed step again. */
  | { readonly state: "failed"; readonly error: string; readonly command: string };

/** How often a step is tried before its failure counts. */
const maxAttempts = 2;
const waitMilliseconds = 500;

export const logFileName = "log.txt";

/** The pieces of a sweep in stages, each of which needs the one before. */
export const stages = ["train", "measure", "figures"] as const;
export type Stage = (typeof stages)[number];

export function listWorkItems(plan: SweepPlan): Readonly<Record<Stage, WorkItem[]>> {
  const { seeds, evaluation: then } = plan.settings;
  const measured = then.advglue || Object.keys(then.attacks).length > 0;
  return {
    train: Object.keys(plan.runs).map((run) => ({ kind: "train", run })),
    measure: measured
      ? plan.cells.flatMap(({ row, column }) => seeds.map((seed): WorkItem => ({ kind: "measure", row, column, seed })))
      : [],
    figures: then.analyses.flatMap(({ columns }, number) =>
      (columns ?? plan.columns.map(({ id }) => id)).map((column): WorkItem => ({ kind: "figure", number, column })),
    ),
  };
}

/** A unit in a few words. */
export function formatWorkItem(workItem: WorkItem): string {
  if (workItem.kind === "train") return workItem.run;
  return workItem.kind === "measure"
    ? `${workItem.row}, ${workItem.column}, seed ${workItem.seed}`
    : `figure ${workItem.number + 1}, ${workItem.column}`;
}

/** The folder that a unit works in, and its steps; null where nothing is there yet that it could work on. */
export async function resolveCommands(
  out: string,
  plan: SweepPlan,
  workItem: WorkItem,
): Promise<{ folder: string; steps: readonly SubprocessCommand[] } | null> {
  if (workItem.kind === "train") {
    const folder = getRunFolder(out, workItem.run);
    return { folder, steps: [createTrainCommand(folder)] };
  }
  if (workItem.kind === "figure") {
    const { analyses } = plan.settings.evaluation;
    const analysis = analyses[workItem.number]!;
    const before = analyses.slice(0, workItem.number).filter(({ kind }) => kind === analysis.kind).length;
    const folders = await findFigureFolders(out, plan, analysis, workItem.column);
    return folders[0] === undefined
      ? null
      : { folder: folders[0], steps: createFigureCommands(analysis, folders, before) };
  }
  const run = await findSelectedRun(out, plan, workItem.row, workItem.column, workItem.seed);
  const folder = run === null ? null : getRunFolder(out, run);
  return folder === null
    ? null
    : { folder, steps: createEvaluationCommands(folder, plan.runs[run!]!, plan.settings.evaluation) };
}

/** The run folders that a figure is drawn from, in the order of its rows; those of cells without results are left out. */
async function findFigureFolders(
  out: string,
  plan: SweepPlan,
  { rows, seed }: AnalysisSettings,
  column: string,
): Promise<string[]> {
  const found: string[] = [];
  for (const row of rows ?? plan.rows.map(({ id }) => id)) {
    for (const each of seed === "all" ? plan.settings.seeds : [seed]) {
      const run = await findSelectedRun(out, plan, row, column, each);
      if (run !== null) found.push(getRunFolder(out, run));
    }
  }
  return [...new Set(found)];
}

async function findSelectedRun(
  out: string,
  plan: SweepPlan,
  row: string,
  column: string,
  seed: number,
): Promise<string | null> {
  const cell = plan.cells.find((each) => isSameCell(each, { row, column }));
  const choice = cell && (await selectBest(out, plan, cell));
  return choice?.point.runs[plan.settings.seeds.indexOf(seed)] ?? null;
}

/** Whether there is nothing left to do. */
export async function isWorkItemDone(out: string, plan: SweepPlan, workItem: WorkItem): Promise<boolean> {
  const work = await resolveCommands(out, plan, workItem);
  if (!work) return false;
  for (const subprocessCommand of work.steps) if (!(await isCommandDone(subprocessCommand))) return false;
  return true;
}

/** Does what is left of a unit, each step in a process of its own and twice at most. */
export async function runWorkItem(
  out: string,
  plan: SweepPlan,
  workItem: WorkItem,
  options: Omit<SubprocessOptions, "log"> = {},
): Promise<WorkItemResult> {
  const work = await resolveCommands(out, plan, workItem);
  if (!work) return { state: "blocked" };
  for (const subprocessCommand of work.steps) {
    const end = await runWithRetry(work.folder, subprocessCommand, options).catch((error: unknown): WorkItemResult => {
      if (!(error instanceof UserError)) throw error;
      return {
        state: "failed",
        error: error.message,
        command: formatCommandLine(["temper", ...subprocessCommand.argv]),
      };
    });
    if (end.state !== "done") return end;
  }
  await removeArtifacts(out, plan, workItem, work.folder);
  return { state: "done" };
}

/** Removes what the sweep's `keep` does not keep. */
async function removeArtifacts(out: string, plan: SweepPlan, workItem: WorkItem, folder: string): Promise<void> {
  const { checkpoints, models } = plan.settings.artifacts;
  if (workItem.kind === "train" && !checkpoints)
    await rm(join(folder, runFiles.checkpoints), { recursive: true, force: true });
  if (workItem.kind !== "measure" || models === "all") return;
  // A run that another cell has too is left alone: that cell may have chosen it.
  const elsewhere = new Set(
    plan.cells.flatMap((cell) => (isSameCell(cell, workItem) ? [] : cell.points.flatMap(({ runs }) => runs))),
  );
  for (const { runs } of plan.cells.find((cell) => isSameCell(cell, workItem))?.points ?? []) {
    const other = runs[plan.settings.seeds.indexOf(workItem.seed)]!;
    if (getRunFolder(out, other) !== folder && !elsewhere.has(other))
      await rm(join(getRunFolder(out, other), runFiles.model), { recursive: true, force: true });
  }
}

function isSameCell(cell: SweepCell, { row, column }: { readonly row: string; readonly column: string }): boolean {
  return cell.row === row && cell.column === column;
}

const failureFileName = "failure.json";
const failureSchema = z.object({ error: z.string(), command: z.string() });

/** Keeps what became of a unit beside its log, for who comes later to see. */
export async function recordResult(
  out: string,
  plan: SweepPlan,
  workItem: WorkItem,
  end: WorkItemResult,
): Promise<void> {
  const work = await resolveCommands(out, plan, workItem);
  if (!work) return;
  const path = join(work.folder, failureFileName);
  if (end.state === "failed")
    await writeFileAtomic(path, `${JSON.stringify({ error: end.error, command: end.command })}\n`);
  else await rm(path, { force: true });
}

/** Why a unit has no results: its last failure, where one was recorded. */
export async function readFailure(
  out: string,
  plan: SweepPlan,
  workItem: WorkItem,
): Promise<z.output<typeof failureSchema> | "blocked" | null> {
  const work = await resolveCommands(out, plan, workItem);
  if (!work) return "blocked";
  const path = join(work.folder, failureFileName);
  return (await exists(path)) ? validate(failureSchema, await readJson(path, "the record of a failure"), path) : null;
}

async function runWithRetry(
  folder: string,
  subprocessCommand: SubprocessCommand,
  options: Omit<SubprocessOptions, "log">,
): Promise<WorkItemResult> {
  const log = join(folder, logFileName);
  const command = formatCommandLine(["temper", ...subprocessCommand.argv]);
  const release = await lockCommand(subprocessCommand, options.stop);
  try {
    for (let attempt = 1; ; attempt++) {
      await waitForOwner(folder, options.stop);
      if (await isCommandDone(subprocessCommand)) return { state: "done" };
      appendToLog(log, `${new Date().toISOString()} ${command}`);
      const end = await runSubprocess(subprocessCommand, { ...options, log });
      if (end.state === "done" || options.stop?.aborted)
        return { state: end.state === "done" ? "done" : "interrupted" };
      if (attempt < maxAttempts) continue;
      return { state: "failed", error: end.state === "failed" ? end.error : "it was stopped from outside", command };
    }
  } finally {
    release();
  }
}

/** Two cells may have chosen the same run, and two jobs come to it at once: one works, the other waits and finds it done. */
async function lockCommand({ output }: SubprocessCommand, stop: AbortSignal | undefined): Promise<() => void> {
  await mkdir(dirname(output), { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, dirname(output), "make the folder");
  });
  for (;;) {
    const lock = tryLock(`${output}.lock`);
    if (typeof lock === "function") return lock;
    if (stop?.aborted) return () => undefined;
    await delay(waitMilliseconds);
  }
}

/** A run may still be in the hands of a process that a killed sweep has left: it saves and stops, and we go on from there. */
async function waitForOwner(folder: string, stop: AbortSignal | undefined): Promise<void> {
  const lock = join(folder, runFiles.lock);
  while (findLivingOwner(lock) !== null && !stop?.aborted) await delay(waitMilliseconds);
}

/** On a full disk nothing can be noted; the step itself will say so. */
function appendToLog(log: string, line: string): void {
  try {
    appendFileSync(log, `# ${line}\n`);
  } catch {
    return;
  }
}
