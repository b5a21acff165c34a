import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { readJsonIfExists, writeJson } from "../base/read-json.js";
import { removeJournal } from "../runs/attack-folder.js";
import { claimSchema } from "./claim.js";
import type { StepResult } from "./context.js";
import { type AuditPlan, auditPlanSchema } from "./plan.js";
import type { AuditStep } from "./steps.js";

const stepSchema = z.object({
  /** The part of its plan that the step has carried out, in words. */
  uses: z.string(),
  claims: z.array(claimSchema),
  answers: z.array(z.array(z.number())).optional(),
});

const progressSchema = z.object({
  /** SHA-256 of the model, the data and the settings. */
  key: z.string(),
  /** Texts per second, measured once, so that the same minutes give the same plan. */
  rate: z.number(),
  plan: auditPlanSchema,
  /** The time of the finished steps. */
  seconds: z.number(),
  steps: z.record(z.string(), stepSchema),
});
type AuditState = z.output<typeof progressSchema>;

/** progress.json: the finished steps of an audit. The same command continues it. */
export class AuditProgress {
  private constructor(
    readonly path: string,
    readonly value: AuditState,
  ) {}

  /** Reads the progress in a folder, or starts one. `createPlan` is called with the rate of the host. */
  static async open(
    out: string,
    key: string,
    measureRate: () => Promise<number>,
    createPlan: (rate: number) => AuditPlan,
  ): Promise<AuditProgress> {
    const path = join(out, "progress.json");
    const found = await readJsonIfExists(path, progressSchema, "the progress of the audit");
    if (found && found.key !== key)
      throw new UserError(
        `${out} has an audit of another model, other data or other settings. Choose a different --out, or remove it.`,
      );
    const rate = found?.rate ?? (await measureRate());
    const plan = createPlan(rate);
    const { seconds = 0, steps = {} } = found ?? {};
    // Journals of another budget or sample cannot be continued.
    if (
      found &&
      describeUse(found.plan, ["queryBudget", "cleanTexts"]) !== describeUse(plan, ["queryBudget", "cleanTexts"])
    )
      for (const { name } of found.plan.attacks) await removeJournal(join(out, "attacks"), name);
    const progress = new AuditProgress(path, { key, rate, plan, seconds, steps });
    await progress.#save();
    return progress;
  }

  get(step: AuditStep): StepResult | null {
    const found = this.value.steps[step.name];
    return found?.uses === describeUse(this.value.plan, step.uses) ? found : null;
  }

  async add(step: AuditStep, result: StepResult, seconds: number): Promise<void> {
    const answers = result.answers?.map((row) => [...row]);
    const found = {
      uses: describeUse(this.value.plan, step.uses),
      claims: [...result.claims],
      ...(answers && { answers }),
    };
    this.value.steps[step.name] = found;
    this.value.seconds += seconds;
    await this.#save();
  }

  async #save(): Promise<void> {
    await writeJson(this.path, this.value);
  }
}

function describeUse(plan: AuditPlan, keys: readonly (keyof AuditPlan)[]): string {
  return JSON.stringify(keys.map((key) => plan[key]));
}
