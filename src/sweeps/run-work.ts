import { rm } from "node:fs/promises";
import { basename, dirname, extname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { claim, waitForClaim } from "../base/claim.js";
import { UserError } from "../base/errors.js";
import { createFolder, exists, writeFileAtomic } from "../base/files.js";
import { findLivingOwner } from "../base/lock.js";
import { formatCommandLine } from "../base/shell.js";
import { hashRequest, readWorkRequest, readWorkResult, type WorkRequest } from "../jobs/work-request.js";
import type { Worker, WorkSignals } from "../jobs/worker-process.js";
import { removeJournal } from "../runs/attack-folder.js";
import { getRunPath } from "../runs/run-files.js";
import type { SweepPlan } from "./schema.js";
import { describeBlockedRuns } from "./stages.js";
import {
  isBlocked,
  isWorkDone,
  listWorkPhases,
  type ResolvedWork,
  removeArtifacts,
  resolveWorkItem,
  type WorkItem,
} from "./work-item.js";

export interface WorkFailure {
  readonly state: "failed";
  readonly error: string;
  /** Executes the request again. */
  readonly command: string;
  readonly log: string;
}

/** blocked: the runs that it needs have failed. */
export type WorkItemResult = { readonly state: "done" | "interrupted" | "blocked" } | WorkFailure;

const maxAttempts = 2;
const waitMilliseconds = 500;

/**
 * Executes what is left of a work item in a worker process, and tries twice. Two cells may have selected the same run:
 * one works, and the other waits. Null without `waits`: another process works on it.
 */
export async function runWorkItem(
  out: string,
  plan: SweepPlan,
  item: WorkItem,
  worker: Worker,
  { waits = true, ...signals }: WorkSignals & { readonly waits?: boolean } = {},
): Promise<WorkItemResult | null> {
  const work = await resolveWorkItem(out, plan, item);
  if (!work || (await isBlocked(out, plan, item))) return { state: "blocked" };
  createFolder(dirname(work.resultPath));
  const unit = {
    lock: getLockPath(work),
    readResult: () => readEnding(work),
    compute: () => runWithRetry(work, worker, signals),
  };
  const ending = await (waits ? waitForClaim(unit, signals.stop) : claim(unit)).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    return describeFailure(work, error.message);
  });
  if (ending === null) return waits ? { state: "interrupted" } : null;
  if (ending.state === "done") await removeArtifacts(out, plan, item, work.folder);
  if (ending.state !== "failed" || item.kind !== "train") return ending;
  return { ...ending, error: ending.error + describeBlockedRuns(plan, item.run) };
}

export function getLockPath({ resultPath }: ResolvedWork): string {
  return `${resultPath}.lock`;
}

export async function readItemEnding(out: string, plan: SweepPlan, item: WorkItem): Promise<WorkItemResult | null> {
  const work = await resolveWorkItem(out, plan, item);
  return !work || (await isBlocked(out, plan, item)) ? { state: "blocked" } : readEnding(work);
}

async function readEnding(work: ResolvedWork): Promise<WorkItemResult | null> {
  if (await isWorkDone(work)) return { state: "done" };
  const { request, resultPath } = work;
  const result = await readWorkResult(resultPath).catch(() => null);
  if (result?.status !== "failed" || result.hash !== hashRequest(request)) return null;
  return describeFailure(work, result.error!.message);
}

export async function forgetFailures(out: string, plan: SweepPlan): Promise<void> {
  for (const item of listWorkPhases(plan).flatMap(({ items }) => items)) {
    const work = await resolveWorkItem(out, plan, item);
    if (work && (await readEnding(work))?.state === "failed") await rm(work.resultPath, { force: true });
  }
}

function describeFailure({ folder, requestPath, resultPath }: ResolvedWork, error: string): WorkFailure {
  const command = formatCommandLine(["temper", "worker", requestPath, resultPath]);
  return { state: "failed", error, command, log: getRunPath(folder, "log") };
}

async function runWithRetry(work: ResolvedWork, worker: Worker, signals: WorkSignals): Promise<WorkItemResult> {
  const { stop } = signals;
  const log = getRunPath(work.folder, "log");
  for (let attempt = 1; ; attempt++) {
    await waitForOwner(work.folder, stop);
    if (await isWorkDone(work)) return { state: "done" };
    if (stop?.aborted) return { state: "interrupted" };
    await prepareRequest(work);
    const { status, error } = await worker.execute(work, log, signals);
    if (status === "done") return { state: "done" };
    if (stop?.aborted) return { state: "interrupted" };
    if (attempt === maxAttempts)
      return describeFailure(work, status === "failed" ? error!.message : "Something else stopped it.");
  }
}

/** A worker that outlived a killed sweep saves its work and stops. */
async function waitForOwner(folder: string, stop: AbortSignal | undefined): Promise<void> {
  while (findLivingOwner(getRunPath(folder, "lock")) !== null && !stop?.aborted) await delay(waitMilliseconds);
}

/** Writes the request. Results of an earlier request in the same place make way for it. */
async function prepareRequest({ request, requestPath, resultPath }: ResolvedWork): Promise<void> {
  const earlier = (await exists(requestPath)) ? await readWorkRequest(requestPath).catch(() => null) : null;
  if (request.kind === "attack" && earlier?.kind === "attack")
    for (const name of listOutdatedAttacks(earlier, request)) await removeJournal(request.out, name);
  await rm(resultPath, { force: true });
  await writeFileAtomic(requestPath, `${JSON.stringify(request, null, 2)}\n`);
}

export function listOutdatedAttacks(
  earlier: Extract<WorkRequest, { kind: "attack" }>,
  request: Extract<WorkRequest, { kind: "attack" }>,
): string[] {
  const { attacks } = request;
  // More examples extend a journal, and another dataset is written from it.
  const numExamples = Math.max(earlier.numExamples, request.numExamples);
  const { saveDataset } = request;
  const canContinue = hashRequest({ ...earlier, saveDataset, attacks, numExamples }) === hashRequest(request);
  const hasSameExamples = canContinue && earlier.numExamples === request.numExamples;
  const unchanged = new Set(canContinue ? attacks.map((spec) => JSON.stringify(spec)) : []);
  return earlier.attacks
    .filter((spec) => !unchanged.has(JSON.stringify(spec)))
    .filter(({ name }) => !hasSameExamples || attacks.some((spec) => spec.name === name))
    .map(({ name }) => basename(name, extname(name)));
}
