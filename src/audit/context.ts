import type { GivenExamples, OpenVictim } from "../actions/load/open-victim.js";
import { askModel } from "../actions/measure/clean.js";
import type { PredictProbabilities } from "../attacks/function-victim.js";
import { stopIfAborted, takeTurn } from "../base/event-loop.js";
import type { Callbacks } from "../base/events.js";
import { Rng } from "../base/rng.js";
import { toPredictions } from "../evaluation/metrics.js";
import type { Predictor } from "../models/inference/predictor.js";
import type { Example } from "../tasks/index.js";
import type { ParsedAuditRequest } from "./audit-request.js";
import type { Claim } from "./claim.js";
import type { AuditPlan } from "./plan.js";

/** The model, the data and the plan, as every check sees them. */
export interface AuditContext extends GivenExamples {
  readonly request: ParsedAuditRequest;
  /** The model as `attack` and `exact` open it. */
  readonly model: string | PredictProbabilities;
  readonly victim: OpenVictim;
  /** Answers questions about texts. */
  readonly predictor: Predictor;
  readonly plan: AuditPlan;
  readonly train: readonly Example[] | null;
  /** The values of the slice column, by example; null if none was named. */
  readonly slices: readonly string[] | null;
  /** The probabilities of the examples. The step `clean` sets them. */
  readonly answers: readonly (readonly number[])[];
  /** The folder of the journals. */
  readonly folder: string;
  readonly callbacks: Callbacks;
  /** Aborted when the time is over. */
  readonly timeLimit: AbortSignal;
  /** True if the journals are only read. */
  readonly isReplay: boolean;
}

/** The findings of a step. */
export interface StepResult {
  readonly claims: readonly Claim[];
  readonly answers?: readonly (readonly number[])[] | undefined;
  /** The measurements that did not fit into the time. The next call continues the step. */
  readonly missing?: string;
}

/** Texts per call, so that the time limit is seen. */
const chunkSize = 256;

/** Asks the model for texts in the field that may be changed. Row i are the probabilities of text i. */
export async function ask(
  context: Pick<AuditContext, "predictor" | "callbacks" | "timeLimit">,
  texts: readonly (readonly string[])[],
  stage: string,
): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  for (let start = 0; start < texts.length; start += chunkSize) {
    await takeTurn(context.callbacks.signal);
    stopIfAborted(context.timeLimit);
    const part = texts.slice(start, start + chunkSize);
    rows.push(
      ...(await askModel(context.predictor, part, stage, context.callbacks, { done: start, total: texts.length })),
    );
  }
  return rows;
}

/** The index of the field whose text the checks change. */
function getField({ task }: Pick<AuditContext, "task">): number {
  return task.modifiableFields[0] ?? 0;
}

/** The texts of an example with another text in the field that may be changed. */
export function replaceText(context: Pick<AuditContext, "task">, { texts }: Example, text: string): string[] {
  return texts.map((each, i) => (i === getField(context) ? text : each));
}

/** The text of an example that may be changed. */
export function getText(context: Pick<AuditContext, "task">, { texts }: Example): string {
  return texts[getField(context)]!;
}

/** An example with the class that the model predicts. */
export interface Answered {
  readonly example: Example;
  readonly predicted: number;
}

/** Draws correctly classified examples, in an order that a check's name decides. */
export function drawCorrect(
  { examples, answers, request }: Pick<AuditContext, "examples" | "answers" | "request">,
  name: string,
): Answered[] {
  const predicted = toPredictions(answers);
  const right = examples.flatMap((example, i) =>
    predicted[i] === example.label ? [{ example, predicted: example.label }] : [],
  );
  return new Rng(request.seed).fork("audit", name).shuffle(right);
}
