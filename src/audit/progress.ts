import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { readJsonIfExists, writeJson } from "../base/read-json.js";
import { removeJournal } from "../runs/attack-folder.js";
import { auditFiles } from "./audit-result.js";
import { claimSchema } from "./claim.js";
import type { StepResult } from "./context.js";
import { type AuditPlan, auditPlanSchema } from "./plan.js";
import type { AuditStep } from "./steps.js";

/** progress.json: the finished steps of an audit. The same command continues it. */
const progressSchema = z.object({
  /** SHA-256 of the model, the data and the settings. */
  key: z.string(),
  /** Texts per second, measured once, so that the same minutes give the same plan. */
  rate: z.number(),
  plan: auditPlanSchema,
  seconds: z.number(),
  steps: z.record(
    z.string(),
    z.object({
      /** The part of its plan that the step has carried out, in words. */
      uses: z.string(),
      claims: z.array(claimSchema),
      answers: z.array(z.array(z.number())).optional(),
    }),
  ),
});
export type AuditProgress = z.output<typeof progressSchema>;

function describeUse(plan: AuditPlan, keys: readonly (keyof AuditPlan)[]): string {
  return JSON.stringify(keys.map((key) => plan[key]));
}

/** Reads the progress in a folder, or starts one. `createPlan` is called with the rate of the host. */
export async function openProgress(
  out: string,
  key: string,
  measureRate: () => Promise<number>,
  createPlan: (rate: number) => AuditPlan,
): Promise<AuditProgress> {
  const found = await readJsonIfExists(join(out, auditFiles.progress), progressSchema, "the progress of the audit");
  if (found && found.key !== key)
    throw new UserError(
      `${out} has an audit of another model, other data or other settings. Choose a different --out, or remove it.`,
    );
  const rate = found?.rate ?? (await measureRate());
  const plan = createPlan(rate);
  // Journals of another budget or sample cannot be continued.
  const decisive = ["queryBudget", "cleanTexts"] as const;
  if (found && describeUse(found.plan, decisive) !== describeUse(plan, decisive))
    for (const { name } of found.plan.attacks) await removeJournal(join(out, "attacks"), name);
  const progress = { key, rate, plan, seconds: found?.seconds ?? 0, steps: found?.steps ?? {} };
  await writeJson(join(out, auditFiles.progress), progress);
  return progress;
}

export function findResult({ plan, steps }: AuditProgress, { name, uses }: AuditStep): StepResult | null {
  const found = steps[name];
  return found?.uses === describeUse(plan, uses) ? found : null;
}

export async function addResult(
  out: string,
  progress: AuditProgress,
  { name, uses }: AuditStep,
  { claims, answers }: StepResult,
  seconds: number,
): Promise<void> {
  progress.steps[name] = {
    uses: describeUse(progress.plan, uses),
    claims: [...claims],
    ...(answers && { answers: answers.map((row) => [...row]) }),
  };
  progress.seconds += seconds;
  await writeJson(join(out, auditFiles.progress), progress);
}
