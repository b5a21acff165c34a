import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { httpVictimSchema, redactUrl } from "../../attacks/endpoint.js";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import { UserError } from "../../errors.js";
import { describeDegeneracy } from "../../evaluation/degenerate.js";
import type { Callbacks } from "../../events.js";
import { createFolder, writeFileAtomic } from "../../files.js";
import { checkLabels } from "../../models/index.js";
import { dataOptions } from "../../runs/config.js";
import { hashExamples, readPackageVersion } from "../../runs/environment.js";
import { RunFolder } from "../../runs/run-folder.js";
import { runtimeOptions } from "../../runs/runtime-config.js";
import type { Task } from "../../tasks/index.js";
import { createTask } from "../../tasks/task.js";
import { countSchema, orNull, seedSchema, validate } from "../../validate.js";
import { attackRequestSchema } from "../attack/attack-request.js";
import type { GivenExamples } from "../attack/prepare-attack.js";
import { sampleAttacked } from "../attack/sample-attacked.js";
import { isEndpoint } from "../load/load-victim.js";
import { loadRequestedTask } from "../train/prepare-run.js";
import { type GateLock, isLockFile, type PinnedAttack, readGateLock, writeGateLock } from "./gate-lock.js";
import type { GateFailure, GateReport } from "./gate-report.js";
import { combineVerdicts, judgeGate } from "./judge.js";
import { formatJunit } from "./junit.js";
import { type MeasuredModel, type MeasuredSplit, measureModel, measureSplit } from "./measure-model.js";
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
  minContextSimilarity: attackRequestSchema.shape.minContextSimilarity,
  queryBudget: orNull(countSchema).describe("maximum queries per text"),
  maxDrop: percentage
    .default(2)
    .describe("largest drop of accuracy under attack that is allowed, in percentage points"),
  maxCleanDrop: orNull(percentage).describe(
    "largest drop of accuracy without an attack, in percentage points; null: as --max-drop",
  ),
  minRobust: orNull(percentage).describe("smallest accuracy under attack that is allowed, in percent"),
  lock: orNull(z.string()).describe("write the texts, the attack and the scores of the baseline to this .lock file"),
  out: z.string().default("gate").describe("folder of the journals, junit.xml, summary.md and gate.json"),
  endpoint: httpVictimSchema.prefault({}),
  ...runtimeOptions,
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
  const lock = isLockFile(parsed.baseline)
    ? await openLock(parsed)
    : await measureBaseline(parsed, parsed.baseline, callbacks);
  const given = toGivenExamples(lock);
  const folder = join(parsed.out, "candidate");
  const measured = await measureModel(
    parsed.model,
    folder,
    given,
    lock.attack,
    selectRuntime(parsed, parsed.model),
    callbacks,
  );
  checkHashes(lock, measured, parsed);
  const split = await measureCandidateSplit(parsed, lock, callbacks);
  if (parsed.lock !== null) await writeGateLock(parsed.lock, lock);
  const report = { ...createReport(parsed, lock, measured, split), seconds: (performance.now() - started) / 1000 };
  await writeReports(parsed.out, report);
  return report;
}

function describeModel(reference: string): string {
  return isEndpoint(reference) ? redactUrl(reference) : reference;
}

function selectRuntime({ device, precision, threads, endpoint }: ParsedRequest, model: string) {
  return { device, precision, threads, ...(isEndpoint(model) && { endpoint }) };
}

/** Reads a lock. It pins what is measured, so settings that contradict it are mistakes. */
async function openLock(request: ParsedRequest): Promise<GateLock> {
  const lock = await readGateLock(request.baseline);
  const { attack, task, examples } = lock;
  const pinned: Record<string, unknown> = {
    ...{ attacks: attack.attacks, substitutions: attack.substitutions, queryBudget: attack.queryBudget },
    minContextSimilarity: attack.minContextSimilarity,
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
  };
  const folder = join(request.out, "baseline");
  const runtime = selectRuntime(request, baseline);
  const measured = await measureModel(baseline, folder, { task, examples }, attack, runtime, callbacks);
  const whole = await measureSplit(baseline, task, split, runtime, callbacks);
  const { name, labels, fields, modifiableFields } = task;
  return {
    format: 1,
    temper: readPackageVersion(),
    baseline: describeModel(baseline),
    task: { name, split, labels: [...labels], fields: [...fields], modifiableFields: [...modifiableFields] },
    attack,
    hashes: { ...measured.hashes },
    clean: whole?.clean ?? null,
    confusionMatrix: (whole ?? measured).confusionMatrix.map((row) => [...row]),
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
  for (const [key, hash] of Object.entries(lock.hashes))
    if (measured.hashes[key] !== hash)
      throw new UserError(
        `${baseline}: the ${key === "data" ? "texts" : key} differ from those of the baseline, so the models ` +
          "cannot be compared. Restore them, or write a new lock with --baseline RUN --lock FILE.",
      );
}

/**
 * The candidate on the whole split of the baseline. Null if the baseline has no such measurement,
 * or if the dataset is not here: a gate with a lock works without it.
 */
async function measureCandidateSplit(
  request: ParsedRequest,
  lock: GateLock,
  callbacks: Callbacks,
): Promise<MeasuredSplit | null> {
  if (lock.clean === null || isEndpoint(request.model)) return null;
  const { name, labels, split } = lock.task;
  try {
    const reference = isLockFile(request.baseline) ? request.model : request.baseline;
    const run = (isEndpoint(reference) ? null : await RunFolder.containing(reference)) ?? null;
    const task = await loadRequestedTask(request, { task: name, labels }, run, callbacks);
    if (hashExamples(await task.load(split)) !== lock.clean.examples) return null;
    return await measureSplit(request.model, task, split, selectRuntime(request, request.model), callbacks);
  } catch (error) {
    if (error instanceof UserError && isLockFile(request.baseline)) return null;
    throw error;
  }
}

function pairOutcomes(candidate: string, baseline: string): (readonly [boolean, boolean])[] {
  return [...candidate].map((value, i) => [value === "1", baseline[i] === "1"] as const);
}

function createReport(
  request: ParsedRequest,
  lock: GateLock,
  measured: MeasuredModel,
  split: MeasuredSplit | null,
): Omit<GateReport, "seconds"> {
  const pairs = new Map(
    lock.examples.map(({ id, baseline }) => [id, { baseline, candidate: measured.measurements.get(id)! }]),
  );
  const attacks = Object.keys(lock.examples[0]!.baseline.attacks);
  const { maxDrop, maxCleanDrop, minRobust } = request;
  const limits = {
    maxDrop: maxDrop / 100,
    maxCleanDrop: (maxCleanDrop ?? maxDrop) / 100,
    minRobust: minRobust === null ? null : minRobust / 100,
  };
  const { labels } = lock.task;
  const checks = judgeGate(pairs, attacks, limits, split && pairOutcomes(split.clean.correct, lock.clean!.correct), {
    candidate: describeDegeneracy((split ?? measured).confusionMatrix, labels),
    baseline: describeDegeneracy(lock.confusionMatrix, labels),
  });
  const failures = listFailures(lock, measured);
  const attacked = failures.filter(({ attack }) => attack !== null);
  const clean = failures.filter(({ attack }) => attack === null);
  return {
    verdict: combineVerdicts(checks),
    candidate: describeModel(request.model),
    baseline: isLockFile(request.baseline) ? `${lock.baseline} (${basename(request.baseline)})` : lock.baseline,
    task: lock.task.name,
    labels,
    examples: lock.examples.length,
    checks,
    failures: [...attacked.slice(0, maxShown.attacked), ...clean.slice(0, maxShown.clean)],
    newFailures: { attacked: attacked.length, clean: clean.length },
    finishedAt: new Date().toISOString(),
  };
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
  createFolder(resolve(folder), "write the results of the gate");
  const { failures, ...rest } = report;
  const shown = failures.map(({ result: _, ...failure }) => failure);
  await writeFileAtomic(join(folder, "gate.json"), `${JSON.stringify({ ...rest, failures: shown }, null, 2)}\n`);
  await writeFileAtomic(join(folder, "junit.xml"), formatJunit(report));
  await writeFileAtomic(join(folder, "summary.md"), formatSummary(report));
}
