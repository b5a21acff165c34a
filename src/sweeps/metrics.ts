import { join } from "node:path";
import { z } from "zod";
import { consistencySchema } from "../analysis/consistency.js";
import { exists, readJson } from "../files.js";
import type { Results } from "../runs/results.js";
import { validate } from "../validate.js";
import { evaluationFiles, inconsistencyPrefix } from "./evaluation-commands.js";

/** One number of a run, and how many examples it is a share of; null where it is no share. */
export interface MetricValue {
  readonly value: number;
  readonly examples: number | null;
}

const advglueSchema = z.object({ drop: z.number(), advglue: z.object({ accuracy: z.number(), examples: z.number() }) });

const attacksSchema = z.object({
  examples: z.number(),
  clean: z.number(),
  attacks: z.record(z.string(), z.object({ accuracyUnderAttack: z.number() })),
  worstCase: z.number(),
});

/** Metrics that are no share of examples. */
const nonFractionMetrics = ["log-loss", "calibration-error", "matthews", "f1", "macro-f1"];

/** All that was measured on a finished run, by name: its report's metrics, AdvGLUE, accuracy under each attack and under all of them. */
export async function readMetrics(folder: string, { test: report }: Results): Promise<Map<string, MetricValue>> {
  const found = new Map<string, MetricValue>();
  for (const [name, value] of Object.entries(report.metrics))
    found.set(name, { value, examples: nonFractionMetrics.includes(name) ? null : report.examples });
  const advglue = await readJsonIfExists(join(folder, evaluationFiles.advglue), advglueSchema);
  if (advglue) {
    found.set("advglue", { value: advglue.advglue.accuracy, examples: advglue.advglue.examples });
    found.set("drop", { value: advglue.drop, examples: null });
  }
  const attacked = await readJsonIfExists(join(folder, evaluationFiles.attacks), attacksSchema);
  if (attacked) {
    const { examples, clean, worstCase, attacks } = attacked;
    found.set("clean", { value: clean, examples });
    found.set("worst-case", { value: worstCase, examples });
    for (const [name, { accuracyUnderAttack }] of Object.entries(attacks))
      found.set(name, { value: accuracyUnderAttack, examples });
  }
  const consistency = await readJsonIfExists(
    join(folder, evaluationFiles.consistency),
    consistencySchema.pick({ first: true }),
  );
  for (const { steps, share: rate } of consistency?.first ?? [])
    found.set(`${inconsistencyPrefix}${steps}`, { value: rate, examples: null });
  return found;
}

async function readJsonIfExists<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): Promise<z.output<Schema> | null> {
  return (await exists(path)) ? validate(schema, await readJson(path, "what was measured"), path) : null;
}
