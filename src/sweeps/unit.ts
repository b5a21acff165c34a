import { appendFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { UserError } from "../errors.js";
import { exists, fileError, readJson, writeFileAtomic } from "../files.js";
import { livingOwner, tryLock } from "../lock.js";
import { runFiles } from "../runs/folder.js";
import { commandLine } from "../shell.js";
import { validate } from "../validate.js";
import type { Cell } from "./expand.js";
import { type Plan, runFolder } from "./plan.js";
import { choose } from "./select.js";
import { isDone, runStep, type Step, type StepOptions } from "./step.js";
import { figureSteps, thenSteps, trainStep } from "./then.js";

/** A piece of a sweep that one process slot, or one job of a cluster, works on. */
export const unitSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("train"), run: z.string() }),
  /** What is measured on the chosen run of a cell, one seed of it. */
  z.object({ kind: z.literal("measure"), row: z.string(), column: z.string(), seed: z.number() }),
  z.object({ kind: z.literal("figure"), number: z.number(), column: z.string() }),
]);
export type Unit = z.output<typeof unitSchema>;

type Analysis = Plan["settings"]["then"]["analyses"][number];

export type UnitEnd =
  /** Blocked: what it would work on failed before. */
  | { readonly state: "done" | "interrupted" | "blocked" }
  /** `command` does the failed step again. */
  | { readonly state: "failed"; readonly error: string; readonly command: string };

/** How often a step is tried before its failure counts. */
const attempts = 2;
const waitMilliseconds = 500;

export const logName = "log.txt";

/** The pieces of a sweep in stages, each of which needs the one before. */
export const stages = ["train", "measure", "figures"] as const;
export type Stage = (typeof stages)[number];

export function unitsOf(plan: Plan): Readonly<Record<Stage, Unit[]>> {
  const { seeds, then } = plan.settings;
  const measured = then.advglue || Object.keys(then.attacks).length > 0;
  return {
    train: Object.keys(plan.runs).map((run) => ({ kind: "train", run })),
    measure: measured ? plan.cells.flatMap(({ row, column }) => seeds.map((seed): Unit => ({ kind: "measure", row, column, seed }))) : [],
    figures: then.analyses.flatMap(({ columns }, number) =>
      (columns ?? plan.columns.map(({ id }) => id)).map((column): Unit => ({ kind: "figure", number, column })),
    ),
  };
}

/** A unit in a few words. */
export function nameOf(unit: Unit): string {
  if (unit.kind === "train") return unit.run;
  return unit.kind === "measure" ? `${unit.row}, ${unit.column}, seed ${unit.seed}` : `figure ${unit.number + 1}, ${unit.column}`;
}

/** The folder that a unit works in, and its steps; null where nothing is there yet that it could work on. */
export async function stepsOf(out: string, plan: Plan, unit: Unit): Promise<{ folder: string; steps: readonly Step[] } | null> {
  if (unit.kind === "train") {
    const folder = runFolder(out, unit.run);
    return { folder, steps: [trainStep(folder)] };
  }
  if (unit.kind === "figure") {
    const { analyses } = plan.settings.then;
    const analysis = analyses[unit.number]!;
    const before = analyses.slice(0, unit.number).filter(({ kind }) => kind === analysis.kind).length;
    const folders = await foldersOf(out, plan, analysis, unit.column);
    return folders[0] === undefined ? null : { folder: folders[0], steps: figureSteps(analysis, folders, before) };
  }
  const run = await chosenRun(out, plan, unit.row, unit.column, unit.seed);
  const folder = run === null ? null : runFolder(out, run);
  return folder === null ? null : { folder, steps: thenSteps(folder, plan.runs[run!]!, plan.settings.then) };
}

/** The run folders that a figure is drawn from, in the order of its rows; those of cells without results are left out. */
async function foldersOf(out: string, plan: Plan, { rows, seed }: Analysis, column: string): Promise<string[]> {
  const found: string[] = [];
  for (const row of rows ?? plan.rows.map(({ id }) => id)) {
    for (const each of seed === "all" ? plan.settings.seeds : [seed]) {
      const run = await chosenRun(out, plan, row, column, each);
      if (run !== null) found.push(runFolder(out, run));
    }
  }
  return [...new Set(found)];
}

async function chosenRun(out: string, plan: Plan, row: string, column: string, seed: number): Promise<string | null> {
  const cell = plan.cells.find((each) => isCell(each, { row, column }));
  const choice = cell && (await choose(out, plan, cell));
  return choice?.point.runs[plan.settings.seeds.indexOf(seed)] ?? null;
}

/** Whether there is nothing left to do. */
export async function isUnitDone(out: string, plan: Plan, unit: Unit): Promise<boolean> {
  const work = await stepsOf(out, plan, unit);
  if (!work) return false;
  for (const step of work.steps) if (!(await isDone(step))) return false;
  return true;
}

/** Does what is left of a unit, each step in a process of its own and twice at most. */
export async function performUnit(out: string, plan: Plan, unit: Unit, options: Omit<StepOptions, "log"> = {}): Promise<UnitEnd> {
  const work = await stepsOf(out, plan, unit);
  if (!work) return { state: "blocked" };
  for (const step of work.steps) {
    const end = await performStep(work.folder, step, options).catch((error: unknown): UnitEnd => {
      if (!(error instanceof UserError)) throw error;
      return { state: "failed", error: error.message, command: commandLine(["temper", ...step.argv]) };
    });
    if (end.state !== "done") return end;
  }
  await tidy(out, plan, unit, work.folder);
  return { state: "done" };
}

/** Removes what the sweep's `keep` does not keep. */
async function tidy(out: string, plan: Plan, unit: Unit, folder: string): Promise<void> {
  const { checkpoints, models } = plan.settings.keep;
  if (unit.kind === "train" && !checkpoints) await rm(join(folder, runFiles.checkpoints), { recursive: true, force: true });
  if (unit.kind !== "measure" || models === "all") return;
  // A run that another cell has too is left alone: that cell may have chosen it.
  const elsewhere = new Set(plan.cells.flatMap((cell) => (isCell(cell, unit) ? [] : cell.points.flatMap(({ runs }) => runs))));
  for (const { runs } of plan.cells.find((cell) => isCell(cell, unit))?.points ?? []) {
    const other = runs[plan.settings.seeds.indexOf(unit.seed)]!;
    if (runFolder(out, other) !== folder && !elsewhere.has(other))
      await rm(join(runFolder(out, other), runFiles.model), { recursive: true, force: true });
  }
}

function isCell(cell: Cell, { row, column }: { readonly row: string; readonly column: string }): boolean {
  return cell.row === row && cell.column === column;
}

const failureName = "failure.json";
const failureSchema = z.object({ error: z.string(), command: z.string() });

/** Keeps what became of a unit beside its log, for who comes later to see. */
export async function recordEnd(out: string, plan: Plan, unit: Unit, end: UnitEnd): Promise<void> {
  const work = await stepsOf(out, plan, unit);
  if (!work) return;
  const path = join(work.folder, failureName);
  if (end.state === "failed") await writeFileAtomic(path, `${JSON.stringify({ error: end.error, command: end.command })}\n`);
  else await rm(path, { force: true });
}

/** Why a unit has no results: its last failure, where one was recorded. */
export async function failureOf(out: string, plan: Plan, unit: Unit): Promise<z.output<typeof failureSchema> | "blocked" | null> {
  const work = await stepsOf(out, plan, unit);
  if (!work) return "blocked";
  const path = join(work.folder, failureName);
  return (await exists(path)) ? validate(failureSchema, await readJson(path, "the record of a failure"), path) : null;
}

async function performStep(folder: string, step: Step, options: Omit<StepOptions, "log">): Promise<UnitEnd> {
  const log = join(folder, logName);
  const command = commandLine(["temper", ...step.argv]);
  const release = await ownStep(step, options.stop);
  try {
    for (let attempt = 1; ; attempt++) {
      await waitForOwner(folder, options.stop);
      if (await isDone(step)) return { state: "done" };
      note(log, `${new Date().toISOString()} ${command}`);
      const end = await runStep(step, { ...options, log });
      if (end.state === "done" || options.stop?.aborted) return { state: end.state === "done" ? "done" : "interrupted" };
      if (attempt < attempts) continue;
      return { state: "failed", error: end.state === "failed" ? end.error : "it was stopped from outside", command };
    }
  } finally {
    release();
  }
}

/** Two cells may have chosen the same run, and two jobs come to it at once: one works, the other waits and finds it done. */
async function ownStep({ output }: Step, stop: AbortSignal | undefined): Promise<() => void> {
  await mkdir(dirname(output), { recursive: true }).catch((error: unknown) => {
    throw fileError(error, dirname(output), "make the folder");
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
  while (livingOwner(lock) !== null && !stop?.aborted) await delay(waitMilliseconds);
}

/** On a full disk nothing can be noted; the step itself will say so. */
function note(log: string, line: string): void {
  try {
    appendFileSync(log, `# ${line}\n`);
  } catch {
    return;
  }
}
