import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import type { AttackCallbacks } from "../actions/attack/attack-request.js";
import { compare } from "../actions/compare.js";
import { measureAttacks } from "../actions/measure/attacked.js";
import type { Run } from "../actions/run.js";
import { train } from "../actions/train/train.js";
import { loadAttack } from "../attacks/load-attack.js";
import { UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { formatRoughDuration } from "../base/format.js";
import { lockFolder } from "../base/lock.js";
import { toFlag } from "../base/shell.js";
import { validate } from "../base/validate.js";
import type { MetricComparison } from "../evaluation/compare.js";
import type { MethodReference } from "../methods/index.js";
import { report } from "../report/index.js";
import type { AttackReport } from "../runs/attack-folder.js";
import { flattenData, type RunConfigInput } from "../settings/config.js";
import { resolveRun, userModules } from "../settings/read-config.js";
import {
  checkNew,
  formatTraining,
  hashData,
  listTrained,
  type ModelName,
  modelNames,
  readAttempt,
  removeWithoutAttempt,
  setAside,
  writeAttempt,
} from "./attempt.js";
import { HardenEstimator, type HardenTime } from "./estimate.js";
import { type HardenRequest, hardenRequestSchema, type ParsedHardenRequest } from "./harden-request.js";
import { type HardenPlan, planHardening, warnAboutData } from "./plan.js";
import { type HardenData, readHardenData, writeData } from "./read-data.js";
import { chooseSizes, defaultSizes } from "./sizes.js";
import { describeHardening } from "./verdict.js";

export type { HardenPlan, HardenTime };

/** The accuracy of a model on the attacked texts, before and after. */
export interface HardenedModel {
  readonly clean: number;
  readonly underAttack: number;
}

export interface HardenResult {
  readonly standard: HardenedModel;
  readonly robust: HardenedModel;
  /** Three sentences: what was gained, what it cost, what to do next. */
  readonly verdict: string;
  readonly plan: HardenPlan;
  /** The robust model against the standard one, metric by metric. */
  readonly comparisons: readonly MetricComparison[];
  readonly warnings: readonly string[];
  readonly report: string;
}

export interface HardenCallbacks extends AttackCallbacks {
  /**
   * Called when the data is read and every choice is made, before the first training. The time is
   * measured on a few steps; null if both models are already trained.
   */
  readonly onPlan?: (plan: HardenPlan, time: HardenTime | null) => void;
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
  try {
    return await hardenFromFlags(request, callbacks);
  } catch (error) {
    throw error instanceof UserError ? new UserError(nameKeys(error.message)) : error;
  }
}

/** Replaces flags in a message by the keys of a request: --label-column COLUMN by labelColumn. */
function nameKeys(message: string): string {
  const flags = new Map(Object.keys(hardenRequestSchema.shape).map((key) => [toFlag(key), key]));
  flags.set("--attack", "attacks");
  return message.replaceAll(/(--[a-z][a-z-]*)( [A-Z]{2,}\b)?/g, (found, flag: string) => flags.get(flag) ?? found);
}

/** The same as `harden`, with errors that name the flags of the command line. */
export async function hardenFromFlags(request: HardenRequest, callbacks: HardenCallbacks = {}): Promise<HardenResult> {
  const parsed = validate(hardenRequestSchema, request, "harden");
  const { out, resume } = parsed;
  await checkNames(parsed);
  const data = await readHardenData(parsed, callbacks);
  warnAboutData(parsed, data, callbacks);
  if (!resume) await checkNew(out);
  const isNew = !existsSync(out);
  const unlock = lockFolder(out, "harden.lock", "harden in the folder");
  try {
    const plan = await preparePlan(parsed, data, callbacks);
    return await carryOut(parsed, plan, callbacks);
  } finally {
    unlock();
    if (isNew) await removeWithoutAttempt(out);
  }
}

async function preparePlan(
  request: ParsedHardenRequest,
  data: HardenData,
  callbacks: HardenCallbacks,
): Promise<HardenPlan> {
  const { out, minutes } = request;
  const earlier = await readAttempt(out);
  const hash = hashData(data);
  if (earlier && earlier.data !== hash) await setAside(out, "other texts: the data has changed", callbacks);
  await writeData(data);
  const estimator = new HardenEstimator(data, callbacks);
  // A second measurement could choose other sizes, and the runs could not be continued.
  const known = earlier?.data === hash && earlier.minutes === minutes ? earlier.sizes : null;
  const sizes =
    known ??
    (minutes === null
      ? defaultSizes
      : await chooseSizes(60 * minutes, async (each) => {
          return (await estimator.estimate(planHardening(request, data, each))).total;
        }));
  const plan = planHardening(request, data, sizes);
  const training = formatTraining(plan);
  if (earlier?.data === hash && earlier.training !== training) await setAside(out, "other settings", callbacks);
  const trained = listTrained(out);
  const time = trained.size === modelNames.length ? null : await estimator.estimate(plan, trained);
  if (minutes !== null && time && time.total > tolerance * 60 * minutes)
    warn(
      callbacks,
      `No sizes take about ${formatRoughDuration(60 * minutes)}: the smallest take about ${formatRoughDuration(time.total)}.`,
    );
  await writeAttempt(out, { data: hash, minutes, sizes, training, numExamples: plan.numExamples });
  callbacks.onPlan?.(plan, time);
  return plan;
}

/** An estimate is not exact, so a little more than was asked for needs no warning. */
const tolerance = 1.2;

/** The first steps against an adversary have gradients of a hundred times the usual norm. */
const warmupRatio = 0.1;

async function carryOut(
  request: ParsedHardenRequest,
  plan: HardenPlan,
  callbacks: HardenCallbacks,
): Promise<HardenResult> {
  const { out, resume, seed, attackedLabel, minContextSimilarity, device, precision, threads } = request;
  const folders = { standard: join(out, "standard"), robust: join(out, "robust") };
  const trainModel = (name: ModelName, settings: RunConfigInput, methods: readonly MethodReference[]): Promise<Run> => {
    callbacks.onStage?.("train", `Training the ${name} model (${methods[0] ?? "standard fine-tuning"})`);
    return train({ ...settings, methods, out: folders[name], resume }, callbacks);
  };
  // A model that knows the task keeps it. From pre-trained weights, a few hundred texts teach it only to ignore words.
  const continued = {
    ...plan.settings,
    model: join(folders.standard, "model"),
    train: { ...plan.settings.train, warmupRatio },
  };
  const attackModel = async (name: ModelName): Promise<AttackReport> => {
    callbacks.onStage?.("attack", `Attacking the ${name} model (${plan.attacks.join(", ")})`);
    const { attacks, numExamples } = plan;
    const settings = { numExamples, attackedLabel, minContextSimilarity, seed, resume, device, precision, threads };
    const model = folders[name];
    const measured = await measureAttacks(
      { ...settings, model, attacks: [...attacks], out: join(model, "attacks") },
      callbacks,
    );
    return measured.report!;
  };
  const runs = {
    standard: await trainModel("standard", plan.settings, []),
    robust: await trainModel("robust", plan.continuesStandard ? continued : plan.settings, [plan.method]),
  };
  const reports = { standard: await attackModel("standard"), robust: await attackModel("robust") };
  const { comparisons } = await compare(
    { runs: (["robust", "standard"] as const).map((name) => ({ name, folders: [folders[name]] })), seed },
    callbacks,
  );
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
  const named = flattenData(request).data;
  const source = typeof named === "string" ? named : null;
  const { path } = await report(
    {
      runs: Object.values(folders),
      out: join(out, "report.html"),
      title: `Hardening ${source === null ? plan.task : basename(source)}`,
    },
    { verdict, source },
  );
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
    report: path,
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
