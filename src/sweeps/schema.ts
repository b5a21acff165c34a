import { z } from "zod";
import { attackRequestSchema } from "../actions/attack/attack-request.js";
import { analyses } from "../analysis/definitions.js";
import { parseSpec } from "../base/spec.js";
import { acceptOne, countSchema, orNull, seedSchema } from "../base/validate.js";
import { slurmSchema } from "../jobs/slurm.js";
import { runConfigSchema } from "../settings/config.js";

const configObjectSchema = z.record(z.string(), z.unknown());

/** Key -> values: `train.learningRate: [1e-5, 2e-5]` or `methods.rose.updateRatio: [0.4, 0.6]`. */
const gridSchema = z.record(
  z.string(),
  z.array(z.unknown(), { error: "expected a list of values" }).min(1, { error: "expected at least one value" }),
);
export type Grid = z.output<typeof gridSchema>;

/** A row overrides the sweep's and the column's settings; its `columns` override again. */
const rowSchema = z
  .looseObject({
    title: z.string().optional(),
    grid: gridSchema.nullish(),
    columns: z.record(z.string(), configObjectSchema).optional(),
  })
  .nullable()
  .transform((row) => row ?? {});

const columnSchema = z
  .looseObject({ title: z.string().optional() })
  .nullable()
  .transform((column) => column ?? {});

/** The settings of a run. `perSeed`: one run per seed of the table, for the runs with that seed. */
const stageSchema = z
  .looseObject({ perSeed: z.boolean().default(false) })
  .nullable()
  .transform((stage) => stage ?? { perSeed: false });

/** The options of each attack by its name. Null means its defaults. */
const attacksSchema = z.preprocess(
  (value) => {
    const names = typeof value === "string" ? [value] : value;
    if (!Array.isArray(names) || !names.every((name) => typeof name === "string")) return value;
    return Object.fromEntries(
      names.map((name) => parseSpec(name, "attacks")).map(({ name, options }) => [name, options]),
    );
  },
  z.record(
    z.string(),
    configObjectSchema.nullable().transform((options) => options ?? {}),
  ),
);

/** The keys of the attack request, without those that a sweep sets itself. */
export const attackOptionsSchema = attackRequestSchema.omit({
  model: true,
  attacks: true,
  seed: true,
  out: true,
  resume: true,
  numExamples: true,
  windows: true,
  positiveLabel: true,
  calibrated: true,
  // A sweep writes into its own folder only.
  saveDataset: true,
  device: true,
  precision: true,
  threads: true,
  endpoint: true,
});

/** A figure over the named rows, one per column. Default: all rows and all columns. */
const analysisSchema = z.strictObject({
  kind: z.enum([...analyses.keys()]),
  rows: acceptOne(z.array(z.string()).min(1).optional()),
  columns: acceptOne(z.array(z.string()).min(1).optional()),
  /** Analyze the runs of one seed, or of all seeds. */
  seed: z.union([seedSchema, z.literal("all")]).default("all"),
  /** The keys of the analysis request, without `runs` and `out`. `readSweep` checks them. */
  options: configObjectSchema.default({}),
});

/** A repeated seed would count one run twice and understate the differences' uncertainty. */
const seedsSchema = z
  .array(seedSchema)
  .min(1, { error: "expected at least one seed" })
  .superRefine((seeds, context) => {
    const seen = new Set<number>();
    for (const [i, each] of seeds.entries())
      if (seen.size === seen.add(each).size)
        context.addIssue({ code: "custom", path: [i], message: "expected each seed once" });
  });

export const sweepSettingsSchema = z.strictObject({
  title: z.string().default("Sweep"),
  /** The id of the published table in experiments/published.yaml. */
  publishedTable: orNull(z.string()),
  /** Runs that are trained first, by name. `model: stage:NAME` starts another run from one. */
  stages: z.record(z.string(), stageSchema).default({}),
  rows: z.record(z.string(), rowSchema).default({ all: {} }),
  columns: z.record(z.string(), columnSchema).default({ all: {} }),
  averages: z.record(z.string(), acceptOne(z.array(z.string()).min(1))).default({}),
  grid: gridSchema.default({}),
  seeds: acceptOne(seedsSchema.default([0])),
  /** Selects one combination of the grid per row and column. Null: every combination is a row. */
  select: orNull(
    z.strictObject({
      metric: z.string().default("accuracy"),
      /** The only choice, because selection must not see the test split. */
      on: z.literal("validation").default("validation"),
    }),
  ),
  /** The row, or the rows, that the others are tested against. */
  baseline: z
    .union([z.string(), z.array(z.string()).min(1)], { error: "expected a row, or a list of rows" })
    .nullable()
    .default(null),
  /**
   * The test of rows. examples: against the first baseline, example by example, as `temper
   * compare` does. seeds: by one-tailed t-tests over the seeds against every baseline, as in ROSE.
   */
  significance: z.enum(["examples", "seeds"]).default("examples"),
  metrics: acceptOne(orNull(z.array(z.string()).min(1))),
  evaluation: z
    .strictObject({
      attacks: attacksSchema.default({}),
      numExamples: countSchema.default(1000),
      seed: seedSchema.default(0),
      options: attackOptionsSchema.prefault({}),
      /** Attack options of one column, such as the language-model constraint of its task. */
      columns: z.record(z.string(), configObjectSchema).default({}),
      advglue: z.boolean().default(false),
      /** Exact accuracy with up to `maxChanges` substitutions: exact-1, exact-2, … */
      exact: orNull(
        z.strictObject({
          maxChanges: z.int().min(1).max(16),
          numExamples: countSchema.default(100),
          columns: acceptOne(z.array(z.string()).min(1).optional()),
        }),
      ),
      analyses: z.array(analysisSchema).default([]),
    })
    .prefault({}),
  /** Kept on disk after a run has finished. */
  artifacts: z
    .strictObject({
      /** Keep checkpoints. Analyses over the course of training need them. */
      checkpoints: z.boolean().default(false),
      /** selected: only models of selected runs stay. none: remove them, too, after evaluation. */
      models: z.enum(["all", "selected", "none"]).default("all"),
    })
    .prefault({}),
  slurm: slurmSchema.prefault({}),
});
export type SweepSettings = z.output<typeof sweepSettingsSchema>;

export function listBaselines({ baseline }: Pick<SweepSettings, "baseline">): readonly string[] {
  return baseline === null ? [] : [baseline].flat();
}

/** The keys of a sweep file that belong to runs, which check them. */
export const runConfigKeys: readonly string[] = Object.keys(runConfigSchema.shape);

export const sweepFileSchema = sweepSettingsSchema.extend(
  Object.fromEntries(runConfigKeys.map((key) => [key, z.unknown().optional()])),
);

const pointSchema = z.object({
  values: z.record(z.string(), z.unknown()),
  /** Names of runs, in the order of the seeds. */
  runs: z.array(z.string()),
});

const cellSchema = z.object({ row: z.string(), column: z.string(), points: z.array(pointSchema) });

const namedListSchema = z.array(z.object({ id: z.string(), title: z.string() }));

/** sweep.json: a sweep with the names of its runs. Only the run folders say what is done. */
export const sweepPlanSchema = z.object({
  format: z.literal(3),
  name: z.string(),
  profile: z.string().nullable(),
  settings: z.object(
    sweepSettingsSchema.omit({ stages: true, rows: true, columns: true, grid: true, metrics: true, slurm: true }).shape,
  ),
  rows: namedListSchema,
  columns: namedListSchema,
  metrics: z.array(z.string()),
  cells: z.array(cellSchema),
  /** The name of every run once. Two cells may share runs. The config of a run is in its folder. */
  runs: z.array(z.string()),
  stages: z.record(z.string(), z.string()).default({}),
  /** Run -> the run of a stage whose model it starts from. */
  startsFrom: z.record(z.string(), z.string()).default({}),
});

export type SweepPlan = z.output<typeof sweepPlanSchema>;

/** One combination of a grid's values, with one run per seed. */
export type GridPoint = z.output<typeof pointSchema>;

/** One row in one column: the combinations to select from, or the only one. */
export type SweepCell = z.output<typeof cellSchema>;
