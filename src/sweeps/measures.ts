import { join } from "node:path";
import { z } from "zod";
import { exists, readJson } from "../files.js";
import type { Results } from "../runs/results.js";
import { validate } from "../validate.js";
import { thenFiles } from "./then.js";

/** One number of a run, and how many examples it is a share of; null where it is no share. */
export interface Measured {
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
const notShares = ["log-loss", "calibration-error", "matthews", "f1", "macro-f1"];

/** All that was measured on a finished run, by name: its report's metrics, AdvGLUE, accuracy under each attack and under all of them. */
export async function measuresOf(folder: string, { report }: Results): Promise<Map<string, Measured>> {
  const found = new Map<string, Measured>();
  for (const [name, value] of Object.entries(report.metrics))
    found.set(name, { value, examples: notShares.includes(name) ? null : report.examples });
  const path = join(folder, thenFiles.advglue);
  if (await exists(path)) {
    const { drop, advglue } = validate(advglueSchema, await readJson(path, "the report on AdvGLUE"), path);
    found.set("advglue", { value: advglue.accuracy, examples: advglue.examples });
    found.set("drop", { value: drop, examples: null });
  }
  const attacked = join(folder, thenFiles.attacks);
  if (await exists(attacked)) {
    const { examples, clean, worstCase, attacks } = validate(
      attacksSchema,
      await readJson(attacked, "the report of the attacks"),
      attacked,
    );
    found.set("clean", { value: clean, examples });
    found.set("worst-case", { value: worstCase, examples });
    for (const [name, { accuracyUnderAttack }] of Object.entries(attacks)) found.set(name, { value: accuracyUnderAttack, examples });
  }
  return found;
}
