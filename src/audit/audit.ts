import { join, relative } from "node:path";
import { limitExamples, loadRequestedTask } from "../actions/load/load-task.js";
import { isEndpoint } from "../actions/load/load-victim.js";
import { openVictim } from "../actions/load/open-victim.js";
import { loadClassifier } from "../actions/predict/text-classifier.js";
import { redactUrl } from "../attacks/endpoint.js";
import type { PredictProbabilities } from "../attacks/function-victim.js";
import { Interrupted, UserError } from "../base/errors.js";
import { stopIfAborted } from "../base/event-loop.js";
import { type Callbacks, warn } from "../base/events.js";
import { sha256File, writeFileAtomic } from "../base/files.js";
import { acquireLock } from "../base/lock.js";
import { claimFolder } from "../base/owned-folder.js";
import { writeJson } from "../base/read-json.js";
import { sha256Hex } from "../base/sha256.js";
import { validate } from "../base/validate.js";
import { checksFolder, findJournals, getJournalPath, readAttackFolder } from "../runs/attack-folder.js";
import { hashExamples, readGitCommit, readPackageVersion } from "../runs/environment.js";
import { findProofs } from "../runs/exact-folder.js";
import { flattenData } from "../settings/config.js";
import { drawRandomly } from "../tasks/sample.js";
import { packageRoot } from "../tensor/native.js";
import { type AuditRequest, auditRequestSchema, type ParsedAuditRequest } from "./audit-request.js";
import { type AuditResult, auditFiles } from "./audit-result.js";
import { getAttackFolder, summarizeAttacked } from "./checks/attacked.js";
import { evaluateAnswers } from "./checks/clean.js";
import { getProofFolder } from "./checks/proven.js";
import { type Claim, severities } from "./claim.js";
import type { AuditContext, AuditSource, StepResult } from "./context.js";
import { type AuditPlan, measureRate, planAudit } from "./plan.js";
import { type AuditProgress, addResult, findResult, openProgress } from "./progress.js";
import { createStatement } from "./statement.js";
import { type AuditStep, listSteps } from "./steps.js";
import { limitTime } from "./time-limit.js";
import { describeThreat, describeVerdict, notCovered } from "./verdict.js";

export interface AuditCallbacks extends Callbacks {
  /** Called with the plan as rows of what and how much, before anything is measured. */
  readonly onPlan?: (rows: readonly (readonly string[])[], plan: AuditPlan) => void;
  readonly onStep?: (name: string, done: number, total: number) => void;
}

/** The fraction of the time after which no measurement goes on; the rest is for the result. */
const measuredFraction = 0.94;

/**
 * Audits a classifier within a time limit: accuracy, attacks, proofs, input handling and data. Writes
 * OUT/audit.html and OUT/audit.json. The same call continues an audit that was stopped.
 *
 *     const { verdict, findings } = await audit({ model: "runs/spam", data: "test.csv", minutes: 10 });
 */
export async function audit(
  request: Omit<AuditRequest, "model"> & { readonly model: string | PredictProbabilities },
  callbacks: AuditCallbacks = {},
): Promise<AuditResult> {
  const started = performance.now();
  const { model } = request;
  const name = typeof model === "function" ? model.name || "function" : model;
  const parsed = validate(auditRequestSchema, { ...request, model: name }, "audit");
  await using source = await openAudit(model, parsed, callbacks);
  const { out } = parsed;
  await claimFolder(out, "audit", Object.values(auditFiles));
  const release = acquireLock(join(out, "audit.lock"));
  try {
    const progress = await openProgress(
      out,
      createKey(parsed, source),
      () => measureRate(source.predictor, source.all),
      (rate) => planAudit(parsed, source.task, source.all, rate),
    );
    const { plan, seconds } = progress;
    const rows = listSteps({ plan, train: source.train }).flatMap(({ name: step, what }) =>
      what ? [[step, what]] : [],
    );
    callbacks.onPlan?.(rows, plan);
    const endsAt = started + 1000 * (measuredFraction * 60 * plan.minutes - seconds);
    const result = await runSteps(createContext(source, parsed, plan, callbacks, false), progress, endsAt, callbacks);
    // Figures take long to load, and other commands use the rest of this file.
    const { renderAudit } = await import("./page.js");
    await writeJson(join(out, auditFiles.json), result);
    await writeFileAtomic(join(out, auditFiles.page), renderAudit(result));
    await writeJson(join(out, auditFiles.statement), await createStatement(result, join(out, auditFiles.json)));
    return result;
  } finally {
    release();
  }
}

export async function openAudit(
  model: string | PredictProbabilities,
  request: ParsedAuditRequest,
  { onEvent }: Callbacks,
): Promise<AuditSource & AsyncDisposable> {
  const { device, threads, endpoint, positiveLabel, trainData } = request;
  const victim = await openVictim({ model, device, threads, endpoint, precision: "fp32", onEvent });
  const isVote = typeof model === "string" && victim.settings.certificate !== undefined;
  const classifier = isVote ? await loadClassifier(model, { device, threads, precision: "fp32", onEvent }) : null;
  const close = (): void => {
    classifier?.close();
    victim.close();
  };
  try {
    const task = await victim.loadTask(request);
    if (positiveLabel !== null && !task.labels.includes(positiveLabel))
      throw new UserError(`--positive-label: expected a label (${task.labels.join(", ")}), received ${positiveLabel}.`);
    const { data, ...rest } = flattenData(request);
    const all = await task.load("test");
    const known = { task: null, labels: [...task.labels] };
    const run = victim.local?.run ?? null;
    const train =
      trainData !== null
        ? await (
            await loadRequestedTask({ ...rest, task: null, slices: null, data: trainData }, known, run, { onEvent })
          ).load("test")
        : data === null && task.splits.includes("train")
          ? limitExamples(task, await task.load("train"), run?.config.maxTrainSamples ?? null, run?.config.seed ?? 0)
          : null;
    const predictor = classifier?.predictor ?? victim.victim;
    return {
      model,
      victim,
      predictor,
      task,
      all,
      train,
      answered: new Map(),
      [Symbol.asyncDispose]: async () => close(),
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Two audits with the same key are one audit. Time, threads and the folder are not part of it. */
function createKey(request: ParsedAuditRequest, { victim, train, all }: AuditSource): string {
  const { minutes: _, out: __, device: ___, threads: ____, endpoint: _____, data: ______, ...rest } = request;
  const { hash, hashes } = victim.victim;
  return sha256Hex(
    JSON.stringify([rest, hash, hashes, hashExamples(all), train && hashExamples(train), readPackageVersion()]),
  );
}

/** The examples are drawn once, so that a smaller sample is the start of a larger one. */
export function createContext(
  source: AuditSource,
  request: ParsedAuditRequest,
  plan: AuditPlan,
  callbacks: Callbacks,
  isReplay: boolean,
): AuditContext {
  const examples = drawRandomly(source.all, plan.cleanTexts, request.seed);
  return { ...source, request, plan, examples, answers: [], callbacks, isReplay };
}

async function runSteps(
  start: AuditContext,
  progress: AuditProgress,
  endsAt: number,
  callbacks: AuditCallbacks,
): Promise<AuditResult> {
  const steps = listSteps(start);
  const found = new Map<string, StepResult>();
  const missing = new Map<string, string>();
  let context = start;
  // A step whose share of the time was too short gets the time that the others left.
  for (const hasShares of [true, false])
    for (const [i, step] of steps.entries()) {
      const { name, share = 1 } = step;
      if (!hasShares && !missing.has(name)) continue;
      callbacks.onStep?.(name, i, steps.length);
      const known = findResult(progress, step);
      const begun = performance.now();
      const limited = limitTime(callbacks, begun + (hasShares ? share : 1) * (endsAt - begun));
      const result = known ?? (await runStep(step, { ...context, callbacks: limited }, callbacks.signal));
      if (result === null && name === "clean")
        throw new UserError(`--minutes ${start.plan.minutes} is too short to classify the texts once. Give it more.`);
      const lacking = result === null ? (missing.get(name) ?? name) : result.missing;
      if (lacking === undefined) missing.delete(name);
      else missing.set(name, lacking);
      if (result === null) continue;
      if (!known && lacking === undefined)
        await addResult(start.request.out, progress, step, result, (performance.now() - begun) / 1000);
      found.set(name, result);
      if (result.answers) context = { ...context, answers: result.answers };
    }
  for (const what of missing.values()) warn(callbacks, `Out of time: ${what}. Audit again with more --minutes.`);
  const results = steps.flatMap(({ name }) => found.get(name) ?? []);
  return createResult(context, results, [...missing.values()]);
}

/** Runs a step; null if the time is over. `stop` is the signal of the user. */
async function runStep(step: AuditStep, context: AuditContext, stop?: AbortSignal): Promise<StepResult | null> {
  const { signal } = context.callbacks;
  try {
    stopIfAborted(signal);
    return await step.run(context);
  } catch (error) {
    if (!(error instanceof Interrupted) && !signal?.aborted) throw error;
    if (stop?.aborted) throw new Interrupted("Stopped. Every finished step is kept.");
    return null;
  }
}

export async function createResult(
  context: AuditContext,
  found: readonly StepResult[],
  notMeasured: readonly string[],
): Promise<AuditResult> {
  const { request, victim, task, examples, train, plan } = context;
  const { attacks, underAttack, claims: adequacy } = await summarizeAttacked(context);
  const claims = [...found.flatMap((each) => each.claims), ...adequacy];
  const hasProofs = claims.some(({ id }) => id.startsWith("exact-"));
  const rank = ({ severity }: Claim): number => severities.indexOf(severity!);
  const findings = claims.filter(({ severity }) => severity !== null).sort((a, b) => rank(a) - rank(b));
  const evaluation = evaluateAnswers(context);
  const { data, endpoint: _, minutes: __, out: ___, ...settings } = flattenData(request);
  const model = isEndpoint(request.model) ? redactUrl(request.model) : request.model;
  const numbers = { clean: evaluation.accuracy, underAttack, evaluation, attacks, notMeasured: [...notMeasured] };
  return {
    format: 1,
    temper: readPackageVersion(),
    verdict: describeVerdict({ ...numbers, findings, task: task.name }),
    subject: {
      model,
      modelHash: victim.victim.hashes.model ?? victim.victim.hash,
      data: typeof data === "string" ? data : task.name,
      dataHash: hashExamples(examples),
      trainHash: train && hashExamples(train),
      commit: readGitCommit(packageRoot),
    },
    threatModel: describeThreat(context, Object.keys(attacks), hasProofs),
    findings,
    claims,
    ...numbers,
    notCovered: [...notCovered],
    plan,
    files: await hashFiles(context, hasProofs),
    request: { ...settings, model, data: typeof data === "string" ? data : null },
  };
}

/** Files that no claim follows from, such as those of a proof that was stopped, are no evidence. */
async function hashFiles(context: AuditContext, hasProofs: boolean): Promise<Record<string, string>> {
  const attacks = getAttackFolder(context);
  const checks = join(attacks, checksFolder);
  const paths = [...(await readAttackFolder(attacks)).journals.values()].map(({ path }) => path);
  paths.push(...(await findJournals(checks)).map((name) => getJournalPath(checks, name)));
  if (hasProofs) paths.push(...(await findProofs(getProofFolder(context))));
  const hashes = paths.map(async (path) => [relative(context.request.out, path), await sha256File(path)]);
  return Object.fromEntries(await Promise.all(hashes));
}
