import { join } from "node:path";
import { attack } from "../actions/attack/attack.js";
import type { AttackCallbacks } from "../actions/attack/attack-request.js";
import { compare } from "../actions/compare.js";
import type { Run } from "../actions/run.js";
import { train } from "../actions/train/train.js";
import { loadAttack } from "../attacks/load-attack.js";
import { validate } from "../base/validate.js";
import type { MetricComparison } from "../evaluation/compare.js";
import type { MethodReference } from "../methods/index.js";
import { writeReport } from "../report/index.js";
import type { AttackReport } from "../runs/attack-folder.js";
import { resolveRun, userModules } from "../settings/read-config.js";
import { type HardenRequest, hardenRequestSchema, type ParsedHardenRequest } from "./harden-request.js";
import { type HardenPlan, planHardening } from "./plan.js";
import { describeHardening } from "./verdict.js";

/** The accuracy of a model on the attacked texts, before and after. */
export interface HardenedModel {
  readonly clean: number;
  readonly underAttack: number;
}

/** What `harden` found. */
export interface HardenResult {
  readonly standard: HardenedModel;
  readonly robust: HardenedModel;
  /** Three sentences: what was gained, what it cost, what to do next. */
  readonly verdict: string;
  readonly plan: HardenPlan;
  /** The robust model against the standard one, metric by metric. */
  readonly comparisons: readonly MetricComparison[];
  /** Signs that the numbers are misleading. */
  readonly warnings: readonly string[];
  readonly report: string;
}

/** What happens while a classifier is hardened. */
export interface HardenCallbacks extends AttackCallbacks {
  /** Called when the data is read and every choice is made. */
  readonly onPlan?: (plan: HardenPlan) => void;
  /** Called before each training and attack, with what is done. */
  readonly onStage?: (kind: "train" | "attack", sentence: string) => void;
}

/**
 * Trains a standard and a robust model on the same data, attacks both on the same texts, compares
 * them and writes a report. What is finished in the folder is reused.
 *
 *     const { verdict } = await harden({ data: "reviews.csv", out: "runs/reviews" });
 *     console.log(verdict);
 */
export async function harden(request: HardenRequest, callbacks: HardenCallbacks = {}): Promise<HardenResult> {
  const parsed = validate(hardenRequestSchema, request, "harden");
  const { out, resume, seed, attackedLabel, minContextSimilarity, device, precision, threads } = parsed;
  await checkNames(parsed);
  const plan = await planHardening(parsed, callbacks);
  callbacks.onPlan?.(plan);
  const folders = { standard: join(out, "standard"), robust: join(out, "robust") };
  const trainModel = (name: keyof typeof folders, methods: readonly MethodReference[]): Promise<Run> => {
    callbacks.onStage?.("train", `Training the ${name} model (${methods[0] ?? "standard fine-tuning"})`);
    return train({ ...plan.settings, methods, out: folders[name], resume }, callbacks);
  };
  const attackModel = (name: keyof typeof folders): Promise<AttackReport> => {
    callbacks.onStage?.("attack", `Attacking the ${name} model (${plan.attacks.join(", ")})`);
    const { attacks, numExamples } = plan;
    const settings = { numExamples, attackedLabel, minContextSimilarity, seed, resume, device, precision, threads };
    return attack({ ...settings, model: folders[name], attacks: [...attacks] }, callbacks);
  };
  const runs = { standard: await trainModel("standard", []), robust: await trainModel("robust", [plan.method]) };
  const reports = { standard: await attackModel("standard"), robust: await attackModel("robust") };
  const { comparisons } = await compare(
    { runs: (["robust", "standard"] as const).map((name) => ({ name, folders: [folders[name]] })), seed },
    callbacks,
  );
  const { path: report } = await writeReport({
    runs: Object.values(folders),
    out: join(out, "report.html"),
    title: `Hardening ${plan.task}`,
  });
  const attacked = Object.keys(reports.robust.attacks);
  const metric = attacked.length === 1 ? attacked[0]! : "worst-case";
  const verdict = describeHardening({
    // Recall of a label before the attack is `clean`; otherwise the whole test split is counted.
    clean: findComparison(comparisons, attackedLabel === null ? "accuracy" : "clean"),
    attacked: findComparison(comparisons, metric),
    attack: attacked.length === 1 ? metric : "all attacks",
    degeneracy: { standard: await runs.standard.degeneracy(), robust: await runs.robust.degeneracy() },
    robustFolder: folders.robust,
    epochs: plan.settings.train!.epochs!,
  });
  const summarize = ({ clean, worstCase }: AttackReport): HardenedModel => ({ clean, underAttack: worstCase });
  return {
    standard: summarize(reports.standard),
    robust: summarize(reports.robust),
    verdict,
    plan,
    comparisons,
    warnings: Object.entries(reports).flatMap(([name, { sanity }]) =>
      sanity.map(({ message }) => `${name}: ${message}`),
    ),
    report,
  };
}

/** A typo must not show up after the first training. */
async function checkNames({ model, method, attacks }: ParsedHardenRequest): Promise<void> {
  for (const name of attacks) await loadAttack(name);
  await resolveRun({ model, methods: [method] }, userModules, () => "--method");
}

function findComparison(comparisons: readonly MetricComparison[], metric: string): MetricComparison {
  const found = comparisons.find((comparison) => comparison.metric === metric);
  if (!found) throw new Error(`no comparison of ${metric}`);
  return found;
}
