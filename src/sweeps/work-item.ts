import { join } from "node:path";
import type { z } from "zod";
import { analyses as knownAnalyses } from "../analysis/definitions.js";
import { exists } from "../base/files.js";
import { hashRequest, readWorkResult, type WorkRequest, workRequestSchema } from "../jobs/work-request.js";
import { getRunPath, removeRunFiles } from "../runs/run-files.js";
import type { RunConfig } from "../settings/config.js";
import { advglueParts } from "../tasks/advglue.js";
import { selectBest } from "./collect-results.js";
import { getRunFolder, readPlannedConfig } from "./plan.js";
import { attackOptionsSchema, type SweepCell, type SweepPlan } from "./schema.js";
import { listTrainingLevels } from "./stages.js";

interface EvaluationItem {
  readonly kind: "advglue" | "attack" | "exact";
  readonly row: string;
  readonly column: string;
  readonly seed: number;
}

/**
 * One request of a sweep by its place in the plan. Which run an evaluation needs is known only when
 * the runs of its cell have finished; then the item becomes a request.
 */
export type WorkItem =
  | { readonly kind: "train"; readonly run: string }
  | EvaluationItem
  /** An analysis by its index in the plan, with row and seed if it takes one run at a time. */
  | {
      readonly kind: "analyze";
      readonly index: number;
      readonly column: string;
      readonly row?: string;
      readonly seed?: number;
    };

/** Items that may be executed concurrently. A phase needs the ones before. */
export interface WorkPhase {
  readonly kind: "train" | "evaluate" | "analyze" | "sweep";
  readonly items: readonly WorkItem[];
}

/** The phases of a sweep. Runs that start from the model of a stage are trained after it. */
export function listWorkPhases(plan: SweepPlan): WorkPhase[] {
  const { seeds, evaluation } = plan.settings;
  const analyses = evaluation.analyses.flatMap((analysis, index) =>
    (analysis.columns ?? plan.columns.map(({ id }) => id)).flatMap((column): WorkItem[] =>
      knownAnalyses.get(analysis.kind)!.isPerRun
        ? listAnalyzedCells(plan, index).map((cell) => ({ kind: "analyze", index, column, ...cell }))
        : [{ kind: "analyze", index, column }],
    ),
  );
  const phases: WorkPhase[] = [
    ...listTrainingLevels(plan).map((runs) => ({
      kind: "train" as const,
      items: runs.map((run) => ({ kind: "train" as const, run })),
    })),
    // Seed by seed, so that a sweep that is stopped here has all rows.
    {
      kind: "evaluate",
      items: seeds.flatMap((seed) => plan.cells.flatMap((cell) => listEvaluations(plan, cell, seed))),
    },
    { kind: "analyze", items: analyses },
  ];
  return phases.filter(({ items }) => items.length > 0);
}

function listEvaluations(
  plan: SweepPlan,
  { row, column }: Pick<SweepCell, "row" | "column">,
  seed: number,
): EvaluationItem[] {
  const { advglue, attacks, exact } = plan.settings.evaluation;
  const isWanted = {
    advglue,
    attack: Object.keys(attacks).length > 0,
    exact: exact !== null && (exact.columns?.includes(column) ?? true),
  };
  const kinds = (["advglue", "attack", "exact"] as const).filter((kind) => isWanted[kind]);
  return kinds.map((kind) => ({ kind, row, column, seed }));
}

/**
 * The same work for a scheduler that knows what each item needs. Column by column, the evaluations of
 * a cell follow its runs, so a sweep that is stopped has complete cells.
 */
export function listWorkByCell(plan: SweepPlan): WorkPhase[] {
  const cells = plan.columns.flatMap(({ id }) => plan.cells.filter(({ column }) => column === id));
  const trained = new Set(Object.values(plan.stages));
  const items: WorkItem[] = [...trained].map((run) => ({ kind: "train", run }));
  for (const cell of cells) {
    for (const run of cell.points.flatMap(({ runs }) => runs)) {
      if (!trained.has(run)) items.push({ kind: "train", run });
      trained.add(run);
    }
    items.push(...plan.settings.seeds.flatMap((seed) => listEvaluations(plan, cell, seed)));
  }
  return [{ kind: "sweep", items }, ...listWorkPhases(plan).filter(({ kind }) => kind === "analyze")];
}

export function listNeededRuns({ cells, startsFrom }: SweepPlan, item: WorkItem): readonly string[] {
  if (item.kind === "train") return item.run in startsFrom ? [startsFrom[item.run]!] : [];
  if (item.kind === "analyze") return [];
  return cells.find((cell) => isSameCell(cell, item))!.points.flatMap(({ runs }) => runs);
}

export function formatWorkItem(item: WorkItem): string {
  if (item.kind === "train") return item.run;
  if (item.kind !== "analyze") return `${item.kind} of ${item.row}, ${item.column}, seed ${item.seed}`;
  const cell = item.row === undefined ? "" : `${item.row}, `;
  return `analysis ${item.index + 1} of ${cell}${item.column}${item.seed === undefined ? "" : `, seed ${item.seed}`}`;
}

export interface ResolvedWork {
  readonly folder: string;
  readonly request: WorkRequest;
  readonly requestPath: string;
  readonly resultPath: string;
}

function createWork(folder: string, name: string, request: z.input<typeof workRequestSchema>): ResolvedWork {
  const path = join(getRunPath(folder, "requests"), name);
  return {
    folder,
    request: workRequestSchema.parse(request),
    requestPath: `${path}.request.json`,
    resultPath: `${path}.result.json`,
  };
}

/** The request of a work item; null if the runs that it needs have no results yet. */
export async function resolveWorkItem(out: string, plan: SweepPlan, item: WorkItem): Promise<ResolvedWork | null> {
  if (item.kind === "train") {
    const folder = getRunFolder(out, item.run);
    return createWork(folder, "train", { kind: "train", out: folder });
  }
  if (item.kind === "analyze") return resolveAnalysis(out, plan, item);
  const run = await findSelectedRun(out, plan, item);
  return run === null ? null : createEvaluation(out, plan, run, item, await readPlannedConfig(out, run));
}

/**
 * The evaluation of a run; null if AdvGLUE has no part for its task. Proofs have the substitutions
 * of the attacks.
 */
export function createEvaluation(
  out: string,
  plan: SweepPlan,
  run: string,
  { kind, column }: Pick<EvaluationItem, "kind" | "column">,
  { task, data, device, precision, threads }: RunConfig,
): ResolvedWork | null {
  const folder = getRunFolder(out, run);
  const place = { model: folder, device, precision, threads };
  if (kind === "advglue") {
    if (!advglueParts.some((part) => part === task)) return null;
    return createWork(folder, kind, { kind, data, out: getRunPath(folder, "advglue"), ...place });
  }
  const { attacks, exact, numExamples, seed, options, columns } = plan.settings.evaluation;
  const attackOptions = attackOptionsSchema.parse({ ...options, ...columns[column] });
  if (kind === "attack")
    return createWork(folder, kind, {
      ...attackOptions,
      kind,
      out: getRunPath(folder, "attacks"),
      attacks: Object.entries(attacks).map(([name, given]) => ({ name, options: given })),
      numExamples,
      seed,
      ...place,
    });
  const { substitutions, inVocabSubstitutes, caseSensitiveSubstitutes, sentenceEncoder, minContextSimilarity } =
    attackOptions;
  return createWork(folder, kind, {
    kind,
    out: getRunPath(folder, "exact"),
    result: getRunPath(folder, "exactResult"),
    maxChanges: exact!.maxChanges,
    numExamples: exact!.numExamples,
    seed,
    substitutions,
    inVocabSubstitutes,
    caseSensitiveSubstitutes,
    sentenceEncoder,
    minContextSimilarity,
    ...place,
  });
}

/** The figures of an analysis go into the first run, where the report finds them. */
async function resolveAnalysis(
  out: string,
  plan: SweepPlan,
  item: Extract<WorkItem, { kind: "analyze" }>,
): Promise<ResolvedWork | null> {
  const { analyses } = plan.settings.evaluation;
  const { kind, options } = analyses[item.index]!;
  const cells = item.row === undefined ? listAnalyzedCells(plan, item.index) : [{ row: item.row, seed: item.seed! }];
  const names = new Set<string>();
  for (const { row, seed } of cells) {
    const run = await findSelectedRun(out, plan, { row, column: item.column, seed });
    if (run !== null) names.add(run);
  }
  const runs = [...names].map((run) => getRunFolder(out, run));
  const [folder] = runs;
  if (folder === undefined) return null;
  // A second analysis of the same kind has its own folder.
  const number = analyses.slice(0, item.index + 1).filter((analysis) => analysis.kind === kind).length;
  const suffix = number === 1 ? "" : String(number);
  const request = { ...options, analysis: kind, runs, out: join(getRunPath(folder, "analysis"), suffix) };
  const analysis = knownAnalyses.get(kind)!;
  const dependsOn: string[] = [];
  if (analysis.readsAttacks)
    for (const run of names) {
      const attack = { kind: "attack", column: item.column } as const;
      dependsOn.push(hashRequest(createEvaluation(out, plan, run, attack, await readPlannedConfig(out, run))!.request));
    }
  return createWork(folder, `analyze-${kind}${suffix && `-${suffix}`}`, {
    ...request,
    ...analysis.request.parse(request),
    kind: "analyze",
    dependsOn,
  });
}

function listAnalyzedCells(plan: SweepPlan, index: number): { readonly row: string; readonly seed: number }[] {
  const { rows, seed } = plan.settings.evaluation.analyses[index]!;
  return (rows ?? plan.rows.map(({ id }) => id)).flatMap((row) =>
    (seed === "all" ? plan.settings.seeds : [seed]).map((each) => ({ row, seed: each })),
  );
}

async function findSelectedRun(
  out: string,
  plan: SweepPlan,
  wanted: { readonly row: string; readonly column: string; readonly seed: number },
): Promise<string | null> {
  const cell = plan.cells.find((each) => isSameCell(each, wanted));
  const selected = cell && (await selectBest(out, plan, cell));
  return selected?.point.runs[plan.settings.seeds.indexOf(wanted.seed)] ?? null;
}

/** Returns true if the last result is of this request and done. A trained run has results. */
export async function isWorkDone({ folder, request, resultPath }: ResolvedWork): Promise<boolean> {
  if (request.kind === "train") return exists(getRunPath(folder, "results"));
  const result = await readWorkResult(resultPath).catch(() => null);
  return result?.status === "done" && result.hash === hashRequest(request);
}

export async function isWorkItemDone(out: string, plan: SweepPlan, item: WorkItem): Promise<boolean> {
  const work = await resolveWorkItem(out, plan, item);
  return work !== null && isWorkDone(work);
}

export async function isBlocked(out: string, { startsFrom }: SweepPlan, item: WorkItem): Promise<boolean> {
  if (item.kind !== "train" || !(item.run in startsFrom)) return false;
  const hasResults = (run: string): Promise<boolean> => exists(getRunPath(getRunFolder(out, run), "results"));
  return !(await hasResults(item.run)) && !(await hasResults(startsFrom[item.run]!));
}

/**
 * The finished runs whose model is gone although unfinished work needs it: the folder was copied without models from a
 * host that disappeared, or `artifacts` removed them before an evaluation was added.
 */
export async function listLostModels(out: string, plan: SweepPlan): Promise<string[]> {
  const lost = new Set<string>();
  const addIfLost = async (run: string): Promise<void> => {
    const has = (file: "results" | "model" | "adapter"): Promise<boolean> =>
      exists(getRunPath(getRunFolder(out, run), file));
    if (!(await has("results")) || (await has("model")) || (await has("adapter"))) return;
    lost.add(run);
    const start = plan.startsFrom[run];
    if (start !== undefined) await addIfLost(start);
  };
  for (const item of listWorkPhases(plan).flatMap(({ items }) => items)) {
    if (item.kind === "analyze" || (await isWorkItemDone(out, plan, item))) continue;
    const run = item.kind === "train" ? plan.startsFrom[item.run] : await findSelectedRun(out, plan, item);
    if (run != null) await addIfLost(run);
  }
  return [...lost];
}

export async function removeArtifacts(out: string, plan: SweepPlan, item: WorkItem, folder: string): Promise<void> {
  const { checkpoints, models } = plan.settings.artifacts;
  if (item.kind === "train" && !checkpoints) await removeRunFiles(folder, ["checkpoints"]);
  if (item.kind === "train" || item.kind === "analyze" || models === "all") return;
  // Another cell may have selected a run that it shares with this one, or start from its model.
  const shared = new Set([
    ...Object.values(plan.stages),
    ...plan.cells.flatMap((cell) => (isSameCell(cell, item) ? [] : cell.points.flatMap(({ runs }) => runs))),
  ]);
  for (const { runs } of plan.cells.find((cell) => isSameCell(cell, item))?.points ?? []) {
    const run = runs[plan.settings.seeds.indexOf(item.seed)]!;
    const other = getRunFolder(out, run);
    const isUsed = other === folder && (models === "selected" || (await hasOpenEvaluations(out, plan, item)));
    if (!shared.has(run) && !isUsed) await removeRunFiles(other, ["model"]);
  }
}

async function hasOpenEvaluations(out: string, plan: SweepPlan, { seed, ...cell }: EvaluationItem): Promise<boolean> {
  for (const item of listEvaluations(plan, cell, seed)) {
    const work = await resolveWorkItem(out, plan, item);
    if (work && !(await isWorkDone(work))) return true;
  }
  return false;
}

function isSameCell(cell: SweepCell, { row, column }: Pick<SweepCell, "row" | "column">): boolean {
  return cell.row === row && cell.column === column;
}
