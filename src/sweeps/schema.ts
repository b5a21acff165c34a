import { z } from "zod";
import { runConfigSchema } from "../runs/config.js";

const count = z.number().int().positive();
const configObjectSchema = z.record(z.string(), z.unknown());

/** A row or a column whose settings are all the sweep's own may be written without any. */
const overridesSchema = configObjectSchema.nullable().transform((given) => given ?? {});

/** Key -> the values that it takes: train.learningRate: [1e-5, 2e-5]; methods.rose.updateRatio: [0.4, 0.6]. */
const gridSchema = z.record(
  z.string(),
  z.array(z.unknown(), { error: "expected a list of values" }).min(1, { error: "expected at least one value" }),
);
export type Grid = z.output<typeof gridSchema>;

/** Settings of a row go over the sweep's and the column's; `columns` inside it go over those again, in one column each. */
const rowSchema = z
  .looseObject({
    title: z.string().optional(),
    grid: gridSchema.nullish(),
    columns: z.record(z.string(), configObjectSchema).optional(),
  })
  .nullable()
  .transform((given) => given ?? {});

const columnSchema = z
  .looseObject({ title: z.string().optional() })
  .nullable()
  .transform((given) => given ?? {});

/** The options of an attack, by its name; null: its defaults. */
const attacksSchema = z.record(z.string(), overridesSchema);

export const analysisKinds = [
  "distance",
  "tradeoff",
  "ablation",
  "geometry",
  "landscape",
  "interpolation",
  "consistency",
] as const;

/** A figure over chosen rows, one a column: all of them where none is named. */
const analysisSchema = z.strictObject({
  kind: z.enum(analysisKinds),
  rows: z.array(z.string()).min(1).optional(),
  columns: z.array(z.string()).min(1).optional(),
  /** One seed's runs are compared; all: every run. */
  seed: z.union([z.number().int().nonnegative(), z.literal("all")]).default("all"),
  /** Further options of `temper analyze`, as flags without their dashes. */
  options: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
});

export const slurmSchema = z.strictObject({
  partition: z.string().min(1).nullable().default(null),
  gpus: z.number().int().nonnegative().default(0),
  cpus: count.default(1),
  time: z
    .string({ error: 'expected a time as Slurm writes it, in quotes: "4:00:00" or "2-12"' })
    .regex(/^(\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2})$/, {
      error: 'expected a time as Slurm writes it: "90" (minutes), "4:00:00", "2-12"',
    })
    .nullable()
    .default(null),
  memory: z
    .string({ error: 'expected a size as Slurm writes it: "16G"' })
    .regex(/^\d+[KMGT]?$/i, { error: 'expected a size as Slurm writes it: "16G"' })
    .nullable()
    .default(null),
  /** Further options of sbatch, as they stand: --account=nlp. */
  options: z.array(z.string().startsWith("--")).default([]),
});
export type SlurmSettings = z.output<typeof slurmSchema>;

/** A seed given twice would count one run as two, and make differences look surer than they are. */
const seedsSchema = z
  .array(z.number().int().nonnegative())
  .min(1, { error: "expected at least one seed" })
  .superRefine((seeds, context) => {
    for (const [i, seed] of seeds.entries())
      if (seeds.indexOf(seed) < i) context.addIssue({ code: "custom", path: [i], message: "expected every seed once" });
  });

/** What a sweep file holds beside the settings of a run. */
export const sweepSettingsSchema = z.strictObject({
  title: z.string().default("Sweep"),
  /** Where the published numbers of this table stand in experiments/published.yaml. */
  publishedTable: z.string().nullable().default(null),
  rows: z.record(z.string(), rowSchema).default({ all: {} }),
  columns: z.record(z.string(), columnSchema).default({ all: {} }),
  /** Means over columns: name -> columns. */
  averages: z.record(z.string(), z.array(z.string()).min(1)).default({}),
  grid: gridSchema.default({}),
  seeds: seedsSchema.default([0]),
  /** Chooses one combination of the grid for each row and column; none: every combination is a row. */
  select: z
    .strictObject({
      metric: z.string().default("accuracy"),
      /** Selection never sees what is reported: there is nothing else to choose. */
      on: z.literal("selection").default("selection"),
    })
    .nullable()
    .default(null),
  /** The row that others are tested against. */
  baseline: z.string().nullable().default(null),
  /** What the table shows of each run; null: accuracy, and all that `then` measures. */
  metrics: z.array(z.string()).min(1).nullable().default(null),
  // biome-ignore lint/suspicious/noThenProperty: the key of a file, never a function, so nothing takes it for a promise
  evaluation: z
    .strictObject({
      attacks: attacksSchema.default({}),
      /** Examples that are attacked. */
      numExamples: count.default(1000),
      seed: z.number().int().nonnegative().default(0),
      /** Further options of `temper attack`, as flags without their dashes. */
      options: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
      advglue: z.boolean().default(false),
      analyses: z.array(analysisSchema).default([]),
    })
    .prefault({}),
  /** What stays on the disk of a run that has finished. */
  artifacts: z
    .strictObject({
      /** Checkpoints serve to go on; analyses over the course of training need them too. */
      checkpoints: z.boolean().default(false),
      /** Selected: the models of combinations that were not chosen go when the others are measured. */
      models: z.enum(["all", "selected"]).default("all"),
    })
    .prefault({}),
  slurm: slurmSchema.prefault({}),
});

export type SweepSettings = z.output<typeof sweepSettingsSchema>;

/** The keys of a sweep file that are a run's. They are checked where they are whole: in a run. */
export const runConfigKeys: readonly string[] = Object.keys(runConfigSchema.shape);

export const sweepFileSchema = sweepSettingsSchema.extend(
  Object.fromEntries(runConfigKeys.map((key) => [key, z.unknown().optional()])),
);
