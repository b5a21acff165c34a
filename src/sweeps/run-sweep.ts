import { setMaxListeners } from "node:events";
import { basename, extname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { exists, writeFileAtomic } from "../base/files.js";
import { formatCount } from "../base/format.js";
import { lockFolder } from "../base/lock.js";
import { claimFolder } from "../base/owned-folder.js";
import { writeJson } from "../base/read-json.js";
import { isModulePath, rejectSlurmOptions, type Trust } from "../base/trust.js";
import { countSchema, orNull, validate } from "../base/validate.js";
import { checkSlurm, type SlurmSettings, slurmOverridesSchema } from "../jobs/slurm.js";
import { removeRunFiles } from "../runs/run-files.js";
import { checkInputFiles, checkSweep, listSweepInputs, measureLargestModel, type SweepInputs } from "./check-sweep.js";
import { collectResults, listSelectedFolders } from "./collect-results.js";
import { type EstimateOptions, estimateSweep } from "./estimate.js";
import { countRuns } from "./expand.js";
import {
  checkSweepFolder,
  createSweepPlan,
  getRunFolder,
  type NewSweepPlan,
  sweepFiles,
  usesOnlyCpu,
  writeSweepPlan,
} from "./plan.js";
import { readSweep } from "./read-sweep.js";
import { addPublishedNumbers, readPublishedTable, toMarkdown } from "./render-table.js";
import { runLocally, type WorkItemFailure } from "./run-local.js";
import type { SweepPlan } from "./schema.js";
import { runOnSlurm } from "./slurm.js";
import type { PlannedSweep, SweepCallbacks } from "./sweep-events.js";
import type { ResultsTable } from "./table.js";
import { isWorkItemDone, listLostModels } from "./work-item.js";

export const sweepRequestSchema = z.strictObject({
  file: z.string().describe("the sweep: a YAML file, or the name of a shipped one such as rose-table-1"),
  profile: orNull(z.string()).describe("a profile of the file, such as small"),
  set: z
    .array(z.string())
    .default([])
    .describe("set any key of the file: maxTrainSamples=500, evaluation.numExamples=20"),
  out: orNull(z.string(), "runs/NAME, or runs/NAME-PROFILE").describe("folder of the runs and tables"),
  jobs: orNull(countSchema, "one per GPU, or one; on Slurm one per run").describe("concurrent runs"),
  trainJobs: orNull(countSchema, "one for a model above 150 MB, else as many as jobs").describe(
    "concurrent trainings on each GPU; evaluations run beside them",
  ),
  attackProcesses: countSchema.default(1).describe("processes that share the texts of each attack"),
  resume: z.boolean().default(false).describe("continue the sweep in the folder; finished work is not repeated"),
  estimate: z.boolean().default(true).describe("measure first how long it will take"),
  allowManyRuns: z.boolean().default(false).describe("start even with more than 1,000 runs"),
  allowCode: z.boolean().default(false).describe("run the custom attacks and methods (.js) that the file names"),
  backend: z.enum(["local", "slurm"]).default("local").describe("run on this host (local) or on a cluster (slurm)"),
  slurm: slurmOverridesSchema.prefault({}).describe("overrides the Slurm settings of the file"),
  detach: z.boolean().default(false).describe("Slurm: submit the jobs and return; follow them later with --resume"),
});
export type SweepRequest = z.input<typeof sweepRequestSchema>;

export interface SweepResult {
  readonly out: string;
  /** submitted: the Slurm jobs continue, because of `detach`. */
  readonly status: "done" | "failed" | "interrupted" | "submitted";
  readonly failures: readonly WorkItemFailure[];
  /** The table with the published numbers; null unless the sweep is done or failed. */
  readonly table: ResultsTable | null;
  readonly report: string | null;
}

/** A sweep with more runs starts only on request. */
const maxUnconfirmedRuns = 1000;
/** More runs do not fit in one plan. */
const maxRuns = 20_000;

/**
 * Runs a sweep: trains every run, evaluates the selected ones, analyzes them, and writes the table
 * and the report. With `resume`, only unfinished requests are executed.
 *
 *     const { table } = await sweep({ file: "experiments/spam.yaml", out: "runs/spam" });
 */
export async function sweep(request: SweepRequest, callbacks: SweepCallbacks = {}): Promise<SweepResult> {
  const parsed = validate(sweepRequestSchema, request, "sweep");
  const { jobs, resume, detach, attackProcesses } = parsed;
  const { onEvent } = callbacks;
  const trust = parsed.allowCode ? "user" : "data";
  const { out, sweep, slurm } = await readPlan(parsed, trust);
  const { plan, configs } = sweep;
  if (slurm) checkSlurm(slurm.partition);
  await checkSweepFolder(out, resume);
  await checkSweep(sweep);
  checkInputFiles(sweep);
  const planned = await estimatePlan(out, sweep, !slurm && parsed.estimate, { ...callbacks, jobs, trust });
  if (planned.estimate) onEvent?.({ type: "estimate", planned });
  const release = lockFolder(out, sweepFiles.lock);
  const isCpuOnly = usesOnlyCpu(configs);
  const trainJobs = parsed.trainJobs ?? (await chooseTrainJobs(sweep, isCpuOnly));
  const unfinished = { out, failures: [], table: null, report: null };
  const { signal: stop, killSignal: kill } = callbacks;
  // Every concurrent run listens. Node.js takes more than ten listeners for a leak.
  setMaxListeners(0, ...[stop, kill].filter((signal) => signal !== undefined));
  try {
    // Another sweep may have finished there since the first check.
    await checkSweepFolder(out, resume);
    const { lock: _, ...outputs } = sweepFiles;
    if (!(await exists(join(out, sweepFiles.plan)))) await claimFolder(out, "sweep", Object.values(outputs));
    await writeSweepPlan(out, sweep);
    await forgetLostModels(out, plan, callbacks);
    onEvent?.({ type: "sweep-start" });
    const failures = slurm
      ? await runOnSlurm(out, plan, { settings: slurm, jobs, detach, onEvent, stop, trust })
      : await runLocally(out, plan, { jobs, trainJobs, attackProcesses, stop, kill, onEvent, isCpuOnly, trust });
    if (slurm && detach) return { ...unfinished, status: "submitted" };
    if (stop?.aborted) return { ...unfinished, status: "interrupted" };
    return { out, status: failures.length > 0 ? "failed" : "done", failures, ...(await writeTable(out, plan)) };
  } finally {
    release();
  }
}

/** Runs whose model is gone are trained again. Their journals continue if the new model is equal to the old one. */
async function forgetLostModels(out: string, plan: SweepPlan, callbacks: SweepCallbacks): Promise<void> {
  const lost = await listLostModels(out, plan);
  for (const run of lost) await removeRunFiles(getRunFolder(out, run), ["results"]);
  if (lost.length > 0)
    warn(callbacks, `Unfinished work needs models that are gone, so these runs are trained again: ${lost.join(", ")}`);
}

/** A larger model keeps a GPU busy: two trainings side by side take longer than one after the other. */
const maxSharedModelBytes = 150e6;

async function chooseTrainJobs(sweep: NewSweepPlan, isCpuOnly: boolean): Promise<number> {
  const isLarge = !isCpuOnly && (await measureLargestModel(sweep)) > maxSharedModelBytes;
  return isLarge ? 1 : Number.POSITIVE_INFINITY;
}

/** Plans a sweep and estimates its cost if all inputs are there. Writes nothing, runs no code. */
export async function planSweep(
  request: SweepRequest,
  callbacks: SweepCallbacks = {},
): Promise<PlannedSweep & Pick<NewSweepPlan, "configs"> & { readonly inputs: SweepInputs }> {
  const parsed = validate(sweepRequestSchema, request, "sweep");
  const { out, sweep } = await readPlan({ ...parsed, allowManyRuns: true }, "none");
  const { configs } = sweep;
  const hasCode = Object.values(configs).some(({ methods }) => methods.some(({ name }) => isModulePath(name)));
  await checkSweep(sweep);
  const inputs = await listSweepInputs(sweep);
  const isComplete = inputs.downloads.length === 0 && inputs.files.every(({ isThere }) => isThere);
  const options = { ...callbacks, jobs: parsed.jobs };
  const planned = await estimatePlan(out, sweep, parsed.estimate && !hasCode && isComplete, options);
  return { ...planned, configs, inputs };
}

async function readPlan(
  request: z.output<typeof sweepRequestSchema>,
  trust: Trust,
): Promise<{ readonly out: string; readonly sweep: NewSweepPlan; readonly slurm: SlurmSettings | null }> {
  const file = await readSweep({ ...request, trust });
  const runs = countRuns(file);
  if (runs > maxRuns)
    throw new UserError(
      `${request.file}: this sweep has ${formatCount(runs)} runs, more than ${formatCount(maxRuns)}. ` +
        "Shorten its grid or its seeds, or split it into several files.",
    );
  if (runs > maxUnconfirmedRuns && !request.allowManyRuns)
    throw new UserError(
      `${request.file}: this sweep has ${formatCount(runs)} runs, more than ${formatCount(maxUnconfirmedRuns)}. ` +
        "Check it with --dry-run, then pass --yes.",
    );
  const { slurm } = file.settings;
  if (request.backend === "slurm") rejectSlurmOptions(slurm.options, trust, request.file);
  const { options = [], ...rest } = request.slurm;
  const overrides = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return {
    out: getSweepFolder(request),
    sweep: await createSweepPlan(file),
    slurm: request.backend === "slurm" ? { ...slurm, ...overrides, options: [...slurm.options, ...options] } : null,
  };
}

/** The folder of a sweep: the one that is named, or runs/NAME[-PROFILE]. */
export function getSweepFolder({ file, profile, out }: Pick<SweepRequest, "file" | "profile" | "out">): string {
  const name = basename(file, extname(file));
  return out ?? join("runs", profile ? `${name}-${profile}` : name);
}

async function estimatePlan(
  out: string,
  sweep: NewSweepPlan,
  measure: boolean,
  options: EstimateOptions,
): Promise<PlannedSweep> {
  const unfinished: string[] = [];
  const { plan } = sweep;
  const lost = new Set(await listLostModels(out, plan));
  for (const run of plan.runs)
    if (lost.has(run) || !(await isWorkItemDone(out, plan, { kind: "train", run }))) unfinished.push(run);
  const estimate = measure && unfinished.length > 0 ? await estimateSweep(sweep, unfinished, options) : null;
  return { out, plan, unfinished, estimate };
}

async function writeTable(out: string, plan: SweepPlan): Promise<Pick<SweepResult, "table" | "report">> {
  const own = await collectResults(out, plan);
  const published = own.publishedTable === null ? null : await readPublishedTable(own.publishedTable);
  const table = addPublishedNumbers(own, published);
  await writeFileAtomic(join(out, sweepFiles.table), toMarkdown(own, published));
  await writeJson(join(out, sweepFiles.tableData), table);
  const folders = await listSelectedFolders(out, plan);
  const report = folders.length > 0 ? join(out, sweepFiles.report) : null;
  if (report) {
    const { createReport } = await import("../report/index.js");
    await writeFileAtomic(report, (await createReport(folders)).html);
  }
  return { table, report };
}
