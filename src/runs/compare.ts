import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import {
  compareModels,
  type ExampleOutcomes,
  type ModelOutcomes,
  metricComparisonSchema,
} from "../evaluation/compare.js";
import { readFolder } from "../files.js";
import { seedSchema, validate } from "../validate.js";
import { readAttackFolder } from "./attack-folder.js";
import type { Callbacks } from "./callbacks.js";
import { Run } from "./run.js";
import { readAttackMetrics } from "./run-metrics.js";

/** What `compareRuns` accepts. */
export const compareRequestSchema = z.strictObject({
  runs: z
    .array(z.string())
    .min(2, { error: "expected two or more runs to compare" })
    .describe("runs, folders of journals, or folders of runs that differ only in their seed"),
  seed: seedSchema.default(0).describe("random seed of the bootstrap"),
});

/**
 * A comparison as data: two or more runs.
 *
 *     const request: CompareRequest = { runs: ["runs/rift", "runs/ascc", "runs/standard"] };
 */
export type CompareRequest = z.input<typeof compareRequestSchema>;

export const comparisonReportSchema = z.object({
  runs: z.array(z.string()),
  comparisons: z.array(metricComparisonSchema),
});

/**
 * Every other model against the first one, metric by metric.
 *
 *     const { comparisons }: ComparisonReport = await compare("runs/rose", "runs/standard");
 */
export type ComparisonReport = z.output<typeof comparisonReportSchema>;

/**
 * Compares two or more runs on the same examples: difference, 95% CI and Holm-corrected p-value per
 * metric.
 *
 *     const { comparisons } = await compare("runs/rose", "runs/standard");
 *     console.log(comparisons.map(({ verdict }) => verdict).join("\n"));
 */
export async function compare(...runs: readonly (Run | string)[]): Promise<ComparisonReport> {
  return compareRuns({ runs: runs.map((run) => (typeof run === "string" ? run : run.folder)) });
}

/**
 * Compares two or more runs, with options.
 *
 *     const { comparisons } = await compareRuns({ runs: ["runs/rift", "runs/standard"], seed: 1 });
 */
export async function compareRuns(
  request: CompareRequest,
  { onWarning }: Pick<Callbacks, "onWarning"> = {},
): Promise<ComparisonReport> {
  const { runs, seed } = validate(compareRequestSchema, request, "compare");
  const models: ModelOutcomes[] = [];
  for (const folder of runs) models.push(await readModelOutcomes(folder));
  const tested = models.filter(({ outcomesPerSeed }) => outcomesPerSeed.every((outcomes) => outcomes.has("accuracy")));
  if (tested.length > 0 && tested.length < models.length)
    onWarning?.(`Skipped accuracy: only ${tested.map(({ name }) => name).join(", ")} has results on the test split.`);
  return { runs, comparisons: compareModels(models, { seed, onWarning }) };
}

/** Reads what was measured in a folder: a run, journals, or several of either, one per seed. */
async function readModelOutcomes(folder: string): Promise<ModelOutcomes> {
  const own = await readOutcomes(folder);
  const measured = own.outcomes.size > 0 ? [own] : [];
  if (measured.length === 0) {
    for (const entry of await readFolder(folder)) {
      if (!entry.isDirectory()) continue;
      const found = await readOutcomes(join(folder, entry.name));
      if (found.outcomes.size > 0) measured.push(found);
    }
  }
  if (measured.length === 0)
    throw new UserError(
      `${folder}: expected a finished run, a folder of attack journals (NAME.jsonl), or a folder of several of them. ` +
        "Found none.",
    );
  const seeds = measured.flatMap(({ seed }) => seed ?? []);
  const repeated = seeds.find((seed, i) => seeds.indexOf(seed) !== i);
  if (repeated !== undefined)
    throw new UserError(`${folder}: several runs have seed ${repeated}. Expected runs that differ only in their seed.`);
  // Journals alone do not say which seed trained their model.
  const isComplete = seeds.length === measured.length;
  return { name: folder, outcomesPerSeed: measured.map(({ outcomes }) => outcomes), ...(isComplete && { seeds }) };
}

async function readOutcomes(
  folder: string,
): Promise<{ outcomes: ReadonlyMap<string, ExampleOutcomes>; seed: number | null }> {
  const run = await Run.containing(folder);
  const attacks = run ? await run.attacks() : await readAttackFolder(folder);
  const unfinished = [...attacks.journals.values()].find(({ finished }) => !finished);
  if (unfinished)
    throw new UserError(
      `${unfinished.path}: ${unfinished.results.length} of ${unfinished.header.examples} examples are done. ` +
        "Finish it with temper attack … --resume.",
    );
  const metrics = run ? await run.metrics() : new Map(readAttackMetrics(attacks));
  const outcomes = new Map<string, ExampleOutcomes>();
  for (const [id, { outcomes: each }] of metrics) if (each) outcomes.set(id, each);
  // The test split is larger than the attacked sample: one of them is enough.
  if (outcomes.has("accuracy")) outcomes.delete("clean");
  return { outcomes, seed: (await run?.results())?.seed ?? null };
}
