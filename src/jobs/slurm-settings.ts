import { z } from "zod";
import { acceptOne, countSchema } from "../base/validate.js";

/** The settings of Slurm jobs. */
export const slurmKeys = {
  partition: z.string().min(1).nullable().describe("Slurm: partition"),
  gpus: z.number().int().nonnegative().describe("Slurm: GPUs per run"),
  cpus: countSchema.describe("Slurm: CPU cores per run"),
  time: z
    .string({ error: 'expected a time in Slurm\'s format, in quotes: "4:00:00" or "2-12"' })
    .regex(/^(\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2})$/, {
      error: 'expected a time in Slurm\'s format: "90" (minutes), "4:00:00" or "2-12"',
    })
    .nullable()
    .describe("Slurm: time limit of a job, such as 4:00:00; longer runs continue in another job"),
  memory: z
    .string({ error: 'expected a size in Slurm\'s format: "16G"' })
    .regex(/^\d+[KMGT]?$/i, { error: 'expected a size in Slurm\'s format: "16G"' })
    .nullable()
    .describe("Slurm: memory of a job, such as 16G"),
  options: z.array(z.string().startsWith("--")).describe("Slurm: any other sbatch option (--sbatch=--account=nlp)"),
};

/** The settings of Slurm jobs that a request overrides. */
export const slurmOverridesSchema = z.strictObject(slurmKeys).partial();

export const slurmSchema = z.strictObject({
  partition: slurmKeys.partition.default(null),
  gpus: slurmKeys.gpus.default(0),
  cpus: slurmKeys.cpus.default(1),
  time: slurmKeys.time.default(null),
  memory: slurmKeys.memory.default(null),
  options: acceptOne(slurmKeys.options.default([])),
});
export type SlurmSettings = z.output<typeof slurmSchema>;
