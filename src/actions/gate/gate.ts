import { basename, join, resolve, sep } from "node:path";
import type { z } from "zod";
import { redactUrl } from "../../attacks/endpoint.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { writeFileAtomic } from "../../base/files.js";
import { acquireLock } from "../../base/lock.js";
import { claimFolder } from "../../base/owned-folder.js";
import { validate } from "../../base/validate.js";
import { describeDegeneracy } from "../../evaluation/degenerate.js";
import { listGuardMetrics } from "../../evaluation/operating-points.js";
import { checkLabels } from "../../models/index.js";
import { readPackageVersion } from "../../runs/environment.js";
import type { EvaluationResult } from "../../runs/results.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { Example, Task } from "../../tasks/index.js";
import { createTask } from "../../tasks/task.js";
import { sampleAttacked } from "../attack/sample-attacked.js";
import { loadRequestedTask } from "../load/load-task.js";
import { isEndpoint } from "../load/load-victim.js";
import type { GivenExamples } from "../load/open-victim.js";
import { type CertifiedCount, measureCertified } from "../measure/certified.js";
import { findPositiveLabel } from "../predict/certified-model.js";
import { type GateLock, isLockFile, readGateLock, writeGateLock } from "./gate-lock.js";
import { gateRequestSchema, type ParsedGateRequest } from "./gate-request.js";
import { combineVerdicts, type GateFacts, judgeGate } from "./judge.js";
import {
  loadLockedSplit,
  type MeasuredModel,
  measureGuard,
  measureModel,
  measureSplit,
  requireCertifiedRun,
} from "./measure.js";
import { formatJunit, formatSummary, type GateFailure, type GateReport } from "./report.js";

const defaults = { attacks: [{ name: "pwws", options: {} }], numExamples: 200, seed: 0, split: "test" } as const;
/** New failures that are shown, with and without an attack. */
const maxShown = { attacked: 10, clean: 5 };

/**
 * Decides whether a model is as robust as a baseline: attacks both over the same texts, and tests
 * that accuracy drops by at most a margin.
 *
 *     const { verdict, checks } = await gate({ model: "runs/new", baseline: "gate.lock" });
 */
export async function gate(request: z.input<typeof gateRequestSchema>, callbacks: Callbacks = {}): Promise<GateReport> {
  const started = performance.now();
  const parsed = validate(gateRequestSchema, request, "gate");
  if (parsed.lock !== null && !isLockFile(parsed.lock))
    throw new UserError(`--lock: expected the name of a .lock file, such as gate.lock, received ${parsed.lock}.`);
  const certifiedRun = parsed.minCertified === null ? null : await requireCertifiedRun(parsed.model);
  // A mistake in the lock leaves no folder.
  const pinned = isLockFile(parsed.baseline) ? await openLock(parsed) : null;
  await using _ = await openGateFolder(parsed);
  const { lock, examples } = pinned
    ? { lock: pinned, examples: await loadLockedSplit(parsed, pinned, callbacks) }
    : await measureBaseline(parsed, parsed.baseline, callbacks);
  const { positiveLabel, device, threads } = parsed;
  const given = toGivenExamples(lock);
  const folder = join(parsed.out, files.candidate);
  const runtime = selectRuntime(parsed, parsed.model);
  const measured = await measureModel(parsed.model, folder, given, lock.attack, runtime, callbacks);
  checkHashes(lock, measured, parsed);
  const split =
    examples && (await measureSplit(parsed.model, { ...given, examples }, { ...runtime, positiveLabel }, callbacks));
  const settings = { device, threads, edits: parsed.edits, seed: lock.attack.seed };
  const certified = certifiedRun && (await measureCertified(certifiedRun, given, settings, callbacks));
  const guarded = await measureGuard(parsed.model, given, { device, threads }, callbacks);
  const isOther = positiveLabel !== null && positiveLabel !== guarded?.positiveLabel;
  const points = (isOther ? split : guarded)?.operatingPoints;
  if (parsed.lock !== null) await writeGateLock(parsed.lock, lock);
  const found = createReport(parsed, lock, { ...measured, split, certified });
  const guard = guarded?.guard ?? null;
  const operatingPoints = points ? listGuardMetrics(points) : [];
  const report = { ...found, guard, operatingPoints, seconds: (performance.now() - started) / 1000 };
  await writeReports(parsed.out, report);
  return report;
}

const files = {
  baseline: "baseline",
  candidate: "candidate",
  report: "gate.json",
  junit: "junit.xml",
  summary: "summary.md",
} as const;

/**
 * Claims the folder of a gate: it contains no model, nothing that others wrote is replaced, and two
 * gates do not mix their journals there.
 */
async function openGateFolder({ out, model, baseline }: ParsedGateRequest): Promise<AsyncDisposable> {
  for (const reference of [model, baseline]) {
    const input = resolve(reference);
    for (const name of [files.baseline, files.candidate])
      if (`${input}${sep}`.startsWith(`${resolve(out, name)}${sep}`))
        throw new UserError(`--out ${out}: the gate writes to ${join(out, name)}, but ${reference} is there.`);
  }
  await claimFolder(out, "gate", Object.values(files));
  const release = acquireLock(join(out, "gate.running"));
  return { [Symbol.asyncDispose]: async () => release() };
}

function describeModel(reference: string): string {
  return isEndpoint(reference) ? redactUrl(reference) : reference;
}

function selectRuntime({ device, threads, endpoint }: ParsedGateRequest, model: string) {
  return { device, threads, ...(isEndpoint(model) && { endpoint }) };
}

/** Reads a lock. It pins what is measured, so settings that contradict it are mistakes. */
async function openLock(request: ParsedGateRequest): Promise<GateLock> {
  const trust = request.allowCode ? "user" : "data";
  const lock = await readGateLock(request.baseline, trust, readPackageVersion());
  const { attack, task, examples } = lock;
  if (request.positiveLabel !== null) findPositiveLabel(task.labels, request.positiveLabel);
  const pinned: Record<string, unknown> = {
    ...attack,
    split: task.split,
    numExamples: examples.length,
    task: task.name,
  };
  for (const [key, value] of Object.entries(pinned)) {
    const given = request[key as keyof ParsedGateRequest] ?? null;
    if (given === null || JSON.stringify(given) === JSON.stringify(value)) continue;
    throw new UserError(
      `${key}: ${request.baseline} pins ${JSON.stringify(value)}, received ${JSON.stringify(given)}. ` +
        "Leave the option out, or write a new lock with --baseline RUN --lock FILE.",
    );
  }
  return lock;
}

async function measureBaseline(
  request: ParsedGateRequest,
  baseline: string,
  callbacks: Callbacks,
): Promise<{ readonly lock: GateLock; readonly examples: readonly Example[] }> {
  const run = isEndpoint(baseline) ? null : await RunFolder.containing(baseline);
  const { substitutions, minContextSimilarity, queryBudget, precision } = request;
  const split = request.split ?? defaults.split;
  const seed = request.seed ?? defaults.seed;
  const known = run && { task: null, labels: await run.labels() };
  const task = await loadRequestedTask(request, known, run, callbacks);
  // Before the attack on the baseline, which takes long.
  const candidate = isEndpoint(request.model) ? null : await RunFolder.containing(request.model);
  const candidateLabels = await candidate?.labels();
  if (candidateLabels) checkLabels(request.model, candidateLabels, task.labels, task.name);
  const numExamples = request.numExamples ?? defaults.numExamples;
  const { examples } = await sampleAttacked(task, { split, seed, numExamples });
  const attack: GateLock["attack"] = {
    attacks: [...(request.attacks ?? defaults.attacks)],
    substitutions: substitutions ?? run?.config.substitutions ?? null,
    inVocabSubstitutes: run?.config.inVocabSubstitutes ?? null,
    caseSensitiveSubstitutes: run?.config.caseSensitiveSubstitutes ?? null,
    minContextSimilarity,
    queryBudget,
    seed,
    precision: precision ?? "fp32",
  };
  const folder = join(request.out, files.baseline);
  const runtime = selectRuntime(request, baseline);
  const whole = await task.load(split);
  // Before the attack, too: nothing can be concluded from a comparison with a degenerate model.
  const { outcomes, degeneracy } = await measureSplit(
    baseline,
    { task, examples: whole },
    { ...runtime, positiveLabel: request.positiveLabel },
    callbacks,
  );
  if (degeneracy !== null)
    throw new UserError(
      `--baseline ${describeModel(baseline)} is degenerate: ${degeneracy}. Choose another baseline, because a ` +
        "comparison with this one says nothing.",
    );
  const measured = await measureModel(baseline, folder, { task, examples }, attack, runtime, callbacks);
  const { name, labels, fields, modifiableFields } = task;
  const lock: GateLock = {
    format: 3,
    temper: readPackageVersion(),
    baseline: describeModel(baseline),
    task: { name, split, labels: [...labels], fields: [...fields], modifiableFields: [...modifiableFields] },
    attack,
    hashes: { ...measured.hashes, data: measured.hashes.data! },
    clean: outcomes,
    examples: examples.map(({ id, texts, label }) => ({
      ...{ id, label, texts: [...texts] },
      baseline: measured.measurements.get(id)!,
    })),
  };
  return { lock, examples: whole };
}

function toGivenExamples({ task, examples }: GateLock): GivenExamples {
  const all = examples.map(({ id, texts, label }) => ({ id, texts, label }));
  const { split: _, ...source } = task;
  const pinned: Task = createTask({ ...source, read: { test: async () => all } });
  return { task: pinned, examples: all };
}

function checkHashes(lock: GateLock, measured: MeasuredModel, { baseline }: ParsedGateRequest): void {
  const [expected, ...names] = [lock.examples[0]!.baseline, ...measured.measurements.values()].map(({ attacks }) =>
    JSON.stringify(Object.keys(attacks).sort()),
  );
  if (names.some((each) => each !== expected))
    throw new UserError(`${baseline}: expected results of the attacks ${expected}, received ${names[0]}.`);
  for (const key of new Set([...Object.keys(lock.hashes), ...Object.keys(measured.hashes)]))
    if (measured.hashes[key] !== lock.hashes[key])
      throw new UserError(
        `${baseline}: the ${key === "data" ? "texts" : key} of the candidate differ from those of the baseline, so ` +
          "the models cannot be compared. Restore them, or write a new lock with --baseline RUN --lock FILE.",
      );
}

function createReport(
  request: ParsedGateRequest,
  lock: GateLock,
  measured: MeasuredModel & {
    /** Null if the dataset of the lock is not here. */
    readonly split: EvaluationResult | null;
    readonly certified: CertifiedCount | null;
  },
): Omit<GateReport, "seconds" | "guard" | "operatingPoints"> {
  const pairs = new Map(
    lock.examples.map(({ id, baseline }) => [id, { baseline, candidate: measured.measurements.get(id)! }]),
  );
  const attacks = Object.keys(lock.examples[0]!.baseline.attacks);
  const { maxDrop, maxCleanDrop, minRobust, minCertified } = request;
  const toFraction = (percent: number | null): number | null => (percent === null ? null : percent / 100);
  const limits = {
    maxDrop: maxDrop / 100,
    maxCleanDrop: (maxCleanDrop ?? maxDrop) / 100,
    minRobust: toFraction(minRobust),
    minCertified: toFraction(minCertified),
  };
  const { split, certified, confusionMatrix } = measured;
  const { labels } = lock.task;
  const checks = judgeGate(pairs, attacks, limits, {
    clean: split && { candidate: split.outcomes.correct, baseline: lock.clean.correct },
    certified,
    degeneracy: findDegeneracy(split, confusionMatrix, labels),
  });
  const failures = listFailures(lock, measured);
  const attacked = failures.filter(({ attack }) => attack !== null);
  const clean = failures.filter(({ attack }) => attack === null);
  return {
    verdict: combineVerdicts(checks),
    candidate: describeModel(request.model),
    baseline: isLockFile(request.baseline)
      ? `${lock.baseline} (recorded in ${basename(request.baseline)})`
      : lock.baseline,
    task: lock.task.name,
    labels,
    examples: lock.examples.length,
    checks,
    failures: [...attacked.slice(0, maxShown.attacked), ...clean.slice(0, maxShown.clean)],
    newFailures: { attacked: attacked.length, clean: clean.length },
    finishedAt: new Date().toISOString(),
  };
}

/** By the whole split, or by the attacked texts if the dataset is not here. */
function findDegeneracy(
  split: EvaluationResult | null,
  attacked: MeasuredModel["confusionMatrix"],
  labels: readonly string[],
): GateFacts["degeneracy"] {
  const reason = split ? split.degeneracy : describeDegeneracy(attacked, labels);
  const predicted = labels.filter((_, label) => attacked.some((row) => row[label]! > 0));
  return reason === null ? null : { reason, isCertain: split !== null || predicted.length === 1 };
}

function listFailures(lock: GateLock, { measurements, results }: MeasuredModel): GateFailure[] {
  const failures = lock.examples.flatMap(({ id, label, baseline }): GateFailure[] => {
    const candidate = measurements.get(id)!;
    const byAttack = results.get(id)!;
    if (baseline.isCorrect && !candidate.isCorrect) {
      const [result] = byAttack.values();
      const scores = { baselineScore: baseline.clean, candidateScore: candidate.clean };
      return [{ id, attack: null, label, ...scores, result: result! }];
    }
    return Object.entries(baseline.attacks).flatMap(([attack, before]): GateFailure[] => {
      const after = candidate.attacks[attack]!;
      if (!before.isRobust || after.isRobust || !candidate.isCorrect) return [];
      const scores = { baselineScore: before.score, candidateScore: after.score };
      return [{ id, attack, label, ...scores, result: byAttack.get(attack)! }];
    });
  });
  const loss = ({ baselineScore, candidateScore }: GateFailure): number => baselineScore - candidateScore;
  return failures.sort((a, b) => loss(b) - loss(a));
}

async function writeReports(folder: string, report: GateReport): Promise<void> {
  const { failures, ...rest } = report;
  const shown = failures.map(({ result: _, ...failure }) => failure);
  await writeFileAtomic(join(folder, files.report), `${JSON.stringify({ ...rest, failures: shown }, null, 2)}\n`);
  await writeFileAtomic(join(folder, files.junit), formatJunit(report));
  await writeFileAtomic(join(folder, files.summary), formatSummary(report));
}
