import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { redactUrl } from "../../attacks/endpoint.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import type { JournalHeader } from "../../attacks/journal.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { createFolder } from "../../base/files.js";
import { acquireLock } from "../../base/lock.js";
import { validate } from "../../base/validate.js";
import {
  describeProof,
  measureDecidedMargin,
  openProof,
  proofLineSchema,
  proveText,
  readProof,
  summarizeProof,
} from "../../proofs/index.js";
import { hashExamples } from "../../runs/environment.js";
import { type ExactReport, writeExactReport } from "../../runs/exact-folder.js";
import type { Example } from "../../tasks/index.js";
import { getModelFolder } from "../attack/prepare-attack.js";
import { isEndpoint, type LoadedVictim } from "../load/load-victim.js";
import { type GivenExamples, type OpenVictim, openVictim } from "../load/open-victim.js";
import { chooseBound, type PreparedExact, readAttacks, runAttacks, stopIfAborted } from "./exact-attacks.js";
import {
  computeParts,
  countMaxCandidates,
  countOpenTexts,
  type PartedProof,
  readParts,
  removeParts,
} from "./exact-parts.js";
import {
  type ExactCallbacks,
  type ExactRequest,
  exactRequestSchema,
  type ParsedExactRequest,
} from "./exact-request.js";
import { type ExactText, getProofPath, prepareTexts } from "./prepare-exact.js";

export type { ExactReport, ExactRequest };

/**
 * Computes exact robust accuracy: for each text the smallest number of substitutions that fools the
 * model, or the proof that no set of at most `maxChanges` does. The proof is a file that `verify`
 * checks. The same call continues a proof that was stopped.
 *
 *     const { exact: levels, texts } = await exact({ model: "runs/reviews", maxChanges: 2 });
 *     console.log(levels[2]?.accuracy, texts[0]?.minChanges);
 */
export async function exact(
  request: Omit<ExactRequest, "model"> & { readonly model: string | PredictProbabilities },
  callbacks: ExactCallbacks = {},
  given: GivenExamples | null = null,
): Promise<ExactReport> {
  if (typeof request.model === "function" && callbacks.runParts)
    throw new UserError("model: a function cannot be sent to other processes. Use one process.");
  const parsed = parseRequest(request);
  await using victim = await openExactVictim(request.model, parsed, callbacks);
  return await runExact(await prepareExact(parsed, victim, given), callbacks);
}

export async function exactParts(request: ExactRequest, callbacks: Callbacks = {}): Promise<void> {
  const parsed = parseRequest(request);
  await using victim = await openExactVictim(request.model, parsed, callbacks);
  const prepared = await prepareExact(parsed, victim, null);
  const stop = (): void => stopIfAborted(callbacks, 0, prepared.examples);
  await computeParts(await createPartedProof(prepared, stop));
}

function parseRequest({ model, ...request }: Parameters<typeof exact>[0]): ParsedExactRequest {
  const name = typeof model === "function" ? model.name || "function" : model;
  return validate(exactRequestSchema, { ...request, model: name }, "exact");
}

/** Opens a model whose decisions are confirmed in float32 on every device. */
function openExactVictim(
  model: string | PredictProbabilities,
  parsed: ParsedExactRequest,
  { onEvent }: Callbacks,
): Promise<OpenVictim> {
  return openVictim({ ...parsed, model, precision: parsed.precision ?? "auto", isConfirmed: true, onEvent });
}

async function prepareExact(
  request: ParsedExactRequest,
  victim: OpenVictim,
  given: GivenExamples | null,
): Promise<PreparedExact> {
  const { maxChanges } = request;
  const { task, examples } = await victim.loadExamples(request, given);
  const needs = ["substitutions", "context"] as const;
  const { attacks, resources } = await victim.loadAttacks(request.attacks, request, task.labels, needs);
  const { modifiableFields } = task;
  const texts = await prepareTexts(examples, victim, resources, { modifiableFields, maxChanges });
  const measured = await withDecidedMargin(victim, request, texts, examples);
  const prepared = { request, victim: measured, task, examples, texts, attacks, resources };
  const header = createHeader(prepared);
  const out = request.out ?? getModelFolder("exact", request.model, victim.local?.run ?? null);
  createFolder(out);
  return { ...prepared, header, path: getProofPath(out, maxChanges, header) };
}

async function withDecidedMargin(
  loaded: LoadedVictim,
  { decidedMargin, maxChanges }: ParsedExactRequest,
  texts: readonly ExactText[],
  examples: readonly Example[],
): Promise<LoadedVictim> {
  const { victim } = loaded;
  // Without a margin, every score is exact.
  if (!victim.changeMargin || !Number.isFinite(victim.decidedMargin)) return loaded;
  const labeled = texts.map((text, i) => ({ ...text, label: examples[i]!.label }));
  const used = decidedMargin ?? (await measureDecidedMargin(victim, labeled, maxChanges));
  return { ...loaded, victim: { ...victim, ...victim.changeMargin(used) } };
}

async function createPartedProof(prepared: PreparedExact, onCall: (count: number) => void): Promise<PartedProof> {
  const { request, victim, examples, texts, path } = prepared;
  const { maxChanges, budget } = request;
  const found = await readAttacks(prepared);
  return {
    victim: victim.victim,
    problems: texts.map((text, index) => ({
      ...text,
      index,
      example: examples[index]!,
      attack: chooseBound(found, text, index),
    })),
    options: { maxChanges, budget: budget ?? Number.POSITIVE_INFINITY, onCall },
    folder: path.replace(/\.jsonl$/, ".parts"),
  };
}

/** The time between two counts of the progress of other processes. */
const pollMilliseconds = 5000;

async function runInProcesses(
  { request, victim, examples, path }: PreparedExact,
  parted: PartedProof,
  { runParts, ...callbacks }: ExactCallbacks,
): Promise<void> {
  const { length } = examples;
  const countOpen = (): Promise<number> => countOpenTexts(parted);
  const report = async (): Promise<void> =>
    reportProgress(callbacks, "exact, all processes", length - (await countOpen()), length);
  const timer = setInterval(() => void report().catch(() => undefined), pollMilliseconds);
  try {
    const { decidedMargin = null } = victim.victim;
    await runParts!({ ...request, decidedMargin, out: dirname(path) }, join(parted.folder, "workers"), countOpen);
  } finally {
    clearInterval(timer);
  }
}

async function runExact(prepared: PreparedExact, callbacks: ExactCallbacks): Promise<ExactReport> {
  const { path } = prepared;
  const release = acquireLock(`${path}.lock`);
  try {
    await runAttacks(prepared, callbacks);
    const parted = await createPartedProof(prepared, () => undefined);
    if (callbacks.runParts) await runInProcesses(prepared, parted, callbacks);
    const textsPerSecond = await writeProof(prepared, parted, callbacks);
    const summary = (await summarizeProof(path))!;
    const details = await describeProof(path, prepared.victim.victim, prepared.task.labels);
    const report: ExactReport = { ...summary, ...details, textsPerSecond };
    await writeExactReport(report);
    return report;
  } finally {
    release();
  }
}

/** Everything that decides the lines of a proof. */
function createHeader({
  request,
  victim,
  task,
  examples,
  attacks,
  resources,
}: Omit<PreparedExact, "header" | "path">): JournalHeader {
  const { maxChanges, budget, seed, split } = request;
  const { substitutions, context } = resources;
  const { decidedMargin, hash } = victim.victim;
  return {
    attack: "exact",
    options: { maxChanges, budget, attacks: attacks.map(({ name, options }) => ({ name, options })) },
    hashes: {
      ...victim.victim.hashes,
      victim: hash,
      substitutions: substitutions!.hash,
      ...(context && { contextEncoder: context.encoder.hash }),
      data: hashExamples(examples),
    },
    settings: {
      model: isEndpoint(request.model) ? redactUrl(request.model) : request.model,
      task: task.name,
      split,
      modifiableFields: task.modifiableFields,
      ...victim.settings,
      ...(Number.isFinite(decidedMargin) && { decidedMargin }),
      ...(context && { minContextSimilarity: context.minSimilarity }),
    },
    seed,
    examples: examples.length,
  };
}

async function writeProof(
  { examples, path, header }: PreparedExact,
  parted: PartedProof,
  callbacks: ExactCallbacks,
): Promise<ExactReport["textsPerSecond"]> {
  const { victim, problems, options } = parted;
  const writer = await openProof(path, header);
  try {
    const { texts: written } = await readProof(path);
    const computed = await readParts(parted);
    const sizes = problems.map((problem) => countMaxCandidates(problem, options));
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const total = sum(sizes);
    const isFinished = (index: number): boolean => written.get(index)?.at(-1)?.kind === "result";
    // Scores of an earlier call count as done.
    let finished = sum(sizes.filter((_, index) => isFinished(index)));
    if (finished < total) reportProgress(callbacks, "exact", finished, total, "texts");
    let [results, scored] = [0, 0];
    const start = performance.now();
    for (const problem of problems) {
      const { index } = problem;
      const lines = written.get(index) ?? [];
      // The parts of other processes continue what the proof has, unless other hardware computed it.
      const isContinued = isDeepStrictEqual(computed[index]!.slice(0, lines.length), lines);
      const known = isContinued ? computed[index]! : lines;
      let inText = 0;
      const onCall = (count: number): void => {
        scored += count;
        inText += count;
        reportProgress(callbacks, "exact", Math.min(finished + inText, total), total, "texts");
        stopIfAborted(callbacks, results, examples);
      };
      let position = 0;
      for await (const line of proveText(victim, problem, { ...options, onCall }, known)) {
        // The keys have one order, whether the line was computed here or read from a part.
        if (position++ >= lines.length) writer.append(proofLineSchema.parse(line));
        if (line.kind === "result") results++;
      }
      if (!isFinished(index)) finished += sizes[index]!;
      reportProgress(callbacks, "exact", finished, total, "texts");
      stopIfAborted(callbacks, results, examples);
    }
    await removeParts(parted);
    return scored > 0 ? (1000 * scored) / (performance.now() - start) : null;
  } finally {
    writer.close();
  }
}
