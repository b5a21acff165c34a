import { basename, join, resolve, sep } from "node:path";
import { z } from "zod";
import { httpVictimSchema, redactUrl } from "../../attacks/endpoint.js";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import { UserError } from "../../errors.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Callbacks } from "../../events.js";
import { writeFileAtomic } from "../../files.js";
import { acquireLock } from "../../lock.js";
import { checkLabels } from "../../models/index.js";
import { claimFolder } from "../../owned-folder.js";
import { dataOptions } from "../../runs/config.js";
import { readPackageVersion } from "../../runs/environment.js";
import { RunFolder } from "../../runs/run-folder.js";
import { runtimeOptions } from "../../runs/runtime-config.js";
import type { Task } from "../../tasks/index.js";
import { createTask } from "../../tasks/task.js";
import { countSchema, orNull, seedSchema, validate } from "../../validate.js";
import { attackGroups } from "../attack/attack-request.js";
import type { GivenExamples } from "../attack/prepare-attack.js";
import { sampleAttacked } from "../attack/sample-attacked.js";
import { isEndpoint } from "../load/load-victim.js";
import { loadRequestedTask } from "../train/prepare-run.js";
import { type CertifiedCandidate, certifyCandidate, requireCertifiedRun } from "./certify-candidate.js";
import {
  type GateLock,
  gatePrecisions,
  isLockFile,
  type PinnedAttack,
  readGateLock,
  writeGateLock,
} from "./gate-lock.js";
import type { GateFailure, GateReport } from "./gate-report.js";
import { combineVerdicts, type GateCheck, judgeGate } from "./judge.js";
import { formatJunit } from "./junit.js";
import { measureGuard } from "./measure-guard.js";
import { type MeasuredModel, measureModel } from "./measure-model.js";
import { formatSummary } from "./summary.js";

const percentage = z.number().min(0).max(100);

/** What `runGate` accepts. */
export const gateRequestSchema = z.strictObject({
  model: z
    .string()
    .describe("the candidate: a run folder, a model folder, npm:PACKAGE, a Hugging Face model ID or a URL"),
  baseline: z.string().describe("a run, any other model, or the lock of an earlier gate (FILE.lock)"),
  attacks: orNull(z.array(attackSpecSchema).min(1)).describe("attacks, such as pwws; null: the lock's, otherwise pwws"),
  substitutions: orNull(z.string()).describe(
    'word substitutions: "wordnet" or a JSON file; null: the lock\'s, otherwise as in the training of the baseline',
  ),
  ...dataOptions,
  split: orNull(z.enum(["train", "validation", "test"])).describe(
    "dataset split to use; null: the lock's, otherwise test",
  ),
  numExamples: orNull(countSchema).describe("number of texts; null: the lock's, otherwise 200"),
  seed: orNull(seedSchema).describe("random seed of the sample and the attacks; null: the lock's, otherwise 0"),
  minContextSimilarity: attackGroups.constraints.shape.minContextSimilarity,
  queryBudget: orNull(countSchema).describe("maximum queries per text"),
  maxDrop: percentage
    .default(2)
    .describe("largest drop of accuracy under attack that is allowed, in percentage points"),
  maxCleanDrop: orNull(percentage).describe(
    "largest drop of accuracy without an attack, in percentage points; null: as --max-drop",
  ),
  minRobust: orNull(percentage).describe("smallest accuracy under attack that is allowed, in percent"),
  minCertified: orNull(percentage).describe(
    "smallest certified accuracy that is allowed, in percent, for a run that was trained for a certificate",
  ),
  edits: countSchema.max(100).default(1).describe("number of word edits that --min-certified is about"),
  lock: orNull(z.string()).describe("write the texts, the attack and the scores of the baseline to this .lock file"),
  out: z.string().default("gate").describe("folder of the journals, junit.xml, summary.md and gate.json"),
  endpoint: httpVictimSchema.prefault({}),
  ...runtimeOptions,
  precision: orNull(z.enum(gatePrecisions)).describe(
    "precision of the search: int8 (CPU only), bf16, tf32 (GPU only) or fp32; null: the lock's, otherwise fp32",
  ),
  allowCode: z.boolean().default(false).describe("run the custom attacks (.js) that the lock names"),
});
export type GateRequest = z.input<typeof gateRequestSchema>;
type ParsedRequest = z.output<typeof gateRequestSchema>;
const defaults = { attacks: [{ name: "pwws", options: {} }], numExamples: 200, seed: 0, split: "test" } as const;
/** New failures that are shown, with and without an attack. */
const maxShown = { attacked: 10, clean: 5 };

/**
 * Decides whether a model is as robust as a baseline: attacks both over the same texts, and tests
 * that accuracy drops by at most a margin.
 *
 *     const { verdict, checks } = await runGate({ model: "runs/new", baseline: "gate.lock" });
 */
export async function runGate(request: GateRequest, callbacks: Callbacks = {}): Promise<GateReport> {
  const started = performance.now();
  const parsed = validate(gateRequestSchema, request, "gate");
  if (parsed.lock !== null && !isLockFile(parsed.lock))
    throw new UserError(`--lock: expected the name of a .lock file, such as gate.lock, received ${parsed.lock}.`);
  const certifiedRun = parsed.minCertified === null ? null : await requireCertifiedRun(parsed.model);
  // A mistake in the lock leaves no folder.
  const pinned = isLockFile(parsed.baseline) ? await openLock(parsed) : null;
  await using _ = await openGateFolder(parsed);
  const lock = pinned ?? (await measureBaseline(parsed, parsed.baseline, callbacks));
  const given = toGivenExamples(lock);
  const folder = join(parsed.out, files.candidate);
  const measured = await measureModel(
    parsed.model,
    folder,
    given,
    lock.attack,
    selectRuntime(parsed, parsed.model),
    callbacks,
  );
  checkHashes(lock, measured, parsed);
  const { device, threads, edits } = parsed;
  const settings = { device, threads, edits, seed: lock.attack.seed };
  const certified = certifiedRun && (await certifyCandidate(certifiedRun, given, settings, callbacks));
  const guard = await measureGuard(parsed.model, given, { device, threads }, callbacks);
  if (parsed.lock !== null) await writeGateLock(parsed.lock, lock);
  const found = createReport(parsed, lock, measured, certified);
  const report = { ...found, guard, seconds: (performance.now() - started) / 1000 };
  await writeReports(parsed.out, report);
  return report;
}

/** What a gate writes into its folder. */
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
async function openGateFolder({ out, model, baseline }: ParsedRequest): Promise<AsyncDisposable> {
  for (const reference of [model, baseline]) {
    const input = resolve(reference);
    for (const name of [files.baseline, files.candidate])
      if (`${input}${sep}`.startsWith(`${resolve(out, name)}${sep}`))
        throw new UserError(`--out ${out}: the gate writes to ${join(out, name)}, but ${reference} is there.`);
  }
  await claimFolder(out, "gate", Object.values(files));
  const release = acquireLock(
    join(out, "gate.running"),
    (owner) => new UserError(`${out}: ${owner} runs a gate there. Wait for it, or choose a different --out.`),
  );
  return { [Symbol.asyncDispose]: async () => release() };
}

function describeModel(reference: string): string {
  return isEndpoint(reference) ? redactUrl(reference) : reference;
}

function selectRuntime({ device, threads, endpoint }: ParsedRequest, model: string) {
  return { device, threads, ...(isEndpoint(model) && { endpoint }) };
}

/** Reads a lock. It pins what is measured, so settings that contradict it are mistakes. */
async function openLock(request: ParsedRequest): Promise<GateLock> {
  const trust = request.allowCode ? "user" : "data";
  const lock = await readGateLock(request.baseline, { trust, version: readPackageVersion() });
  const { attack, task, examples } = lock;
  const pinned: Record<string, unknown> = {
    ...{ attacks: attack.attacks, substitutions: attack.substitutions, queryBudget: attack.queryBudget },
    ...{ minContextSimilarity: attack.minContextSimilarity, precision: attack.precision },
    ...{ seed: attack.seed, split: task.split, numExamples: examples.length, task: task.name, data: null },
  };
  for (const [key, value] of Object.entries(pinned)) {
    const given = request[key as keyof ParsedRequest];
    if (given === null || JSON.stringify(given) === JSON.stringify(value)) continue;
    throw new UserError(
      `${key}: ${request.baseline} pins ${JSON.stringify(value)}, received ${JSON.stringify(given)}. ` +
        "Leave the option out, or write a new lock with --baseline RUN --lock FILE.",
    );
  }
  return lock;
}

/** Samples texts and attacks the baseline. The result is what a lock contains. */
async function measureBaseline(request: ParsedRequest, baseline: string, callbacks: Callbacks): Promise<GateLock> {
  const run = isEndpoint(baseline) ? null : await RunFolder.containing(baseline);
  const split = request.split ?? defaults.split;
  const seed = request.seed ?? defaults.seed;
  const task = await loadRequestedTask(request, run && { task: null, labels: await run.labels() }, run, callbacks);
  // Before the attack on the baseline, which takes long.
  const candidate = isEndpoint(request.model) ? null : await RunFolder.containing(request.model);
  const candidateLabels = await candidate?.labels();
  if (candidateLabels) checkLabels(request.model, candidateLabels, task.labels, task.name);
  const sample = {
    split,
    seed,
    numExamples: request.numExamples ?? defaults.numExamples,
    sampling: "random",
    attackedLabel: null,
  } as const;
  const { examples } = await sampleAttacked(task, sample, null);
  const attack: PinnedAttack = {
    attacks: [...(request.attacks ?? defaults.attacks)],
    substitutions: request.substitutions ?? run?.config.substitutions ?? null,
    inVocabSubstitutes: run?.config.inVocabSubstitutes ?? null,
    caseSensitiveSubstitutes: run?.config.caseSensitiveSubstitutes ?? null,
    ...{ minContextSimilarity: request.minContextSimilarity, queryBudget: request.queryBudget, seed },
    precision: request.precision ?? "fp32",
  };
  const folder = join(request.out, files.baseline);
  const runtime = selectRuntime(request, baseline);
  const measured = await measureModel(baseline, folder, { task, examples }, attack, runtime, callbacks);
  const { name, labels, fields, modifiableFields } = task;
  return {
    format: 2,
    temper: readPackageVersion(),
    baseline: describeModel(baseline),
    task: { name, split, labels: [...labels], fields: [...fields], modifiableFields: [...modifiableFields] },
    attack,
    hashes: { ...measured.hashes, data: measured.hashes.data! },
    examples: examples.map(({ id, texts, label }) => ({
      ...{ id, label, texts: [...texts] },
      baseline: measured.measurements.get(id)!,
    })),
  };
}

function toGivenExamples({ task, examples }: GateLock): GivenExamples {
  const all = examples.map(({ id, texts, label }) => ({ id, texts, label }));
  const { split: _, ...source } = task;
  const pinned: Task = createTask({ ...source, read: { test: async () => all } });
  return { task: pinned, examples: all };
}

function checkHashes(lock: GateLock, measured: MeasuredModel, { baseline }: ParsedRequest): void {
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
  request: ParsedRequest,
  lock: GateLock,
  measured: MeasuredModel,
  certified: CertifiedCandidate | null,
): Omit<GateReport, "seconds" | "guard"> {
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
  const checks = [...judgeGate(pairs, attacks, limits, certified), ...checkDegeneracy(lock, measured)];
  const failures = listFailures(lock, measured);
  const attacked = failures.filter(({ attack }) => attack !== null);
  const clean = failures.filter(({ attack }) => attack === null);
  return {
    verdict: combineVerdicts(checks),
    candidate: describeModel(request.model),
    baseline: isLockFile(request.baseline) ? `${lock.baseline} (${basename(request.baseline)})` : lock.baseline,
    task: lock.task.name,
    labels: lock.task.labels,
    examples: lock.examples.length,
    checks,
    failures: [...attacked.slice(0, maxShown.attacked), ...clean.slice(0, maxShown.clean)],
    newFailures: { attacked: attacked.length, clean: clean.length },
    finishedAt: new Date().toISOString(),
  };
}

/** Fewer texts may have one answer by chance. */
const minTextsForDegeneracy = 30;

/** A constant candidate fails whatever its accuracy is: nothing that one adds to a text changes it. */
function checkDegeneracy({ task, examples }: GateLock, { results }: MeasuredModel): GateCheck[] {
  const predicted = new Set(examples.map(({ id }) => toPredictions([[...results.get(id)!.values()][0]!.before])[0]!));
  const gold = new Set(examples.map(({ label }) => label));
  if (examples.length < minTextsForDegeneracy || predicted.size > 1 || gold.size < 2) return [];
  const numbers = { candidate: 0, baseline: null, low: 0, high: 0, limit: 0 };
  const check = { name: "degenerate candidate", attack: null, verdict: "regressed", ...numbers } as const;
  const [only] = predicted;
  return [{ ...check, reason: `The candidate is degenerate: it predicts ${task.labels[only!]} for every text.` }];
}

/** The texts that only the candidate gets wrong, the largest losses of probability first. */
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
