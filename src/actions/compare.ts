import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { listSubfolders } from "../base/files.js";
import { seedSchema, validate } from "../base/validate.js";
import { compareModels, metricComparisonSchema } from "../evaluation/compare.js";
import { describeDegeneracy } from "../evaluation/degenerate.js";
import { guardMetricSchema } from "../evaluation/operating-points.js";
import type { ExampleOutcomes, ModelOutcomes } from "../evaluation/outcomes.js";
import { readAttackFolder } from "../runs/attack-folder.js";
import { RunFolder } from "../runs/run-folder.js";
import {
  type MetricValue,
  readAttackMetrics,
  readDegeneracy,
  readGuardMetrics,
  readMetrics,
} from "../runs/run-metrics.js";

export const compareRequestSchema = z.strictObject({
  runs: z
    .array(z.union([z.string(), z.strictObject({ name: z.string(), folders: z.array(z.string()).min(1) })]))
    .min(2, { error: "expected two or more runs to compare" })
    .describe("runs, folders of journals, or folders of runs; a sweep stands for its rows"),
  seed: seedSchema.default(0).describe("random seed of the bootstrap"),
});

/**
 * A comparison as data: two or more runs. A model with several seeds is a folder of runs that
 * differ only in their seed, or a name and the folders of the runs.
 *
 *     const request: CompareRequest = { runs: ["runs/rift", "runs/ascc", "runs/standard"] };
 */
export type CompareRequest = z.input<typeof compareRequestSchema>;

export const comparisonReportSchema = z.object({
  runs: z.array(z.string()),
  comparisons: z.array(metricComparisonSchema),
  /** The operating points of calibrated runs, per seed. They are not tested. */
  guards: z.array(z.object({ name: z.string(), seed: z.number().nullable(), metrics: z.array(guardMetricSchema) })),
});

/**
 * Every other model against the first one, metric by metric.
 *
 *     const { comparisons }: ComparisonReport = await compare({ runs: ["runs/rose", "runs/standard"] });
 */
export type ComparisonReport = z.output<typeof comparisonReportSchema>;

/**
 * Compares two or more runs on the same examples: difference, 95% CI and Holm-corrected p-value per
 * metric.
 *
 *     const { comparisons } = await compare({ runs: ["runs/rose", "runs/standard"] });
 *     console.log(comparisons.map(({ verdict }) => verdict).join("\n"));
 */
export async function compare(request: CompareRequest, callbacks: Callbacks = {}): Promise<ComparisonReport> {
  const { runs, seed } = validate(compareRequestSchema, request, "compare");
  const models: ModelOutcomes[] = [];
  const guards: ComparisonReport["guards"] = [];
  for (const model of runs) {
    const { name, measured } = await readSeeds(model);
    models.push(toModelOutcomes(name, measured));
    for (const { seed, guard } of measured) if (guard.length > 0) guards.push({ name, seed, metrics: guard });
  }
  const tested = models.filter(({ outcomesPerSeed }) => outcomesPerSeed.every((outcomes) => outcomes.has("accuracy")));
  if (tested.length > 0 && tested.length < models.length)
    warn(
      callbacks,
      `Skipped accuracy: only ${tested.map(({ name }) => name).join(", ")} has results on the test split.`,
    );
  return {
    runs: models.map(({ name }) => name),
    comparisons: compareModels(models, { seed, onEvent: callbacks.onEvent }),
    guards,
  };
}

export interface MeasuredSeed {
  readonly seed: number | null;
  readonly metrics: ReadonlyMap<string, MetricValue>;
  readonly degeneracy: string | null;
}

export function toModelOutcomes(name: string, seeds: readonly MeasuredSeed[]): ModelOutcomes {
  const measured = seeds.filter(({ metrics }) => metrics.size > 0);
  const known = measured.flatMap(({ seed }) => seed ?? []);
  return {
    name,
    outcomesPerSeed: measured.map(
      ({ metrics }) =>
        new Map(
          [...metrics].flatMap(([id, { outcomes }]): [string, ExampleOutcomes][] => (outcomes ? [[id, outcomes]] : [])),
        ),
    ),
    attackedLabel: measured[0]?.metrics.get("clean")?.attackedLabel ?? null,
    degeneracies: measured.map(({ degeneracy }) => degeneracy),
    // Journals alone do not say which seed trained their model.
    ...(known.length === measured.length && { seeds: known }),
  };
}

async function readSeeds(model: z.output<typeof compareRequestSchema>["runs"][number]) {
  const { name, folders } = typeof model === "string" ? { name: model, folders: [model] } : model;
  const measured: ComparedSeed[] = [];
  for (const folder of folders) measured.push(...(await readMeasuredSeeds(folder)));
  const seeds = measured.flatMap(({ seed }) => seed ?? []);
  const repeated = seeds.find((seed, i) => seeds.indexOf(seed) !== i);
  if (repeated !== undefined)
    throw new UserError(`${name}: several runs have seed ${repeated}. Expected runs that differ only in their seed.`);
  return { name, measured };
}

type ComparedSeed = MeasuredSeed & { readonly guard: ComparisonReport["guards"][number]["metrics"] };

async function readMeasuredSeeds(folder: string): Promise<ComparedSeed[]> {
  const own = await readMeasuredSeed(folder);
  if (own.metrics.size > 0) return [own];
  const found: ComparedSeed[] = [];
  for (const inner of await listSubfolders(folder)) found.push(await readMeasuredSeed(join(folder, inner)));
  const measured = found.filter(({ metrics }) => metrics.size > 0);
  if (measured.length > 0) return measured;
  throw new UserError(
    `${folder}: expected a finished run, a folder of attack journals (NAME.jsonl), or a folder of several of them. ` +
      "Found none.",
  );
}

async function readMeasuredSeed(folder: string): Promise<ComparedSeed> {
  const run = await RunFolder.containing(folder);
  const attacks = run ? await run.attacks() : await readAttackFolder(folder);
  const unfinished = [...attacks.journals.values()].find(({ finished }) => !finished);
  if (unfinished)
    throw new UserError(
      `${unfinished.path}: ${unfinished.results.length} of ${unfinished.header.examples} examples are done. ` +
        "Finish it with temper attack … --resume.",
    );
  const [journal] = attacks.journals.values();
  return {
    seed: (await run?.results())?.seed ?? null,
    metrics: run ? await readMetrics(run) : new Map(readAttackMetrics(attacks)),
    guard: run ? await readGuardMetrics(run) : [],
    degeneracy: run ? await readDegeneracy(run) : journal ? describeDegeneracy(journal.confusionMatrix) : null,
  };
}
