import { getMaxInputLevel } from "../../nn/index.js";
import type { DeviceConfig } from "../device-config.js";
import type { Model } from "../model.js";
import { createClassifier } from "./classifier.js";
import type { Classifier } from "./classifier-interface.js";
import { confirmAnswers } from "./confirm-answers.js";
import type { Predictor } from "./predictor.js";

export interface SearchPredictor<Created extends Predictor> {
  readonly predictor: Created;
  /** True if float32 confirms the decisions. */
  readonly isConfirmed: boolean;
  close(): void;
}

/** Creates the predictor of a search, which may be less precise than its float32 result. */
export async function createSearchPredictor<Created extends Predictor>(
  {
    model,
    runtime,
    confirmsOnGpu,
    isVote,
  }: {
    readonly model: Model;
    readonly runtime: DeviceConfig & { readonly precision: string };
    /** True if decisions are confirmed in float32 on a GPU, too. On a CPU, they always are. */
    readonly confirmsOnGpu: boolean;
    /** True if answers are votes. Their margins are no logit margins, so every decision is confirmed. */
    readonly isVote: boolean;
  },
  create: (model: Model, classifier: Classifier, deviceConfig: DeviceConfig) => Promise<Created>,
): Promise<SearchPredictor<Created>> {
  const { device, precision } = runtime;
  const isLow = device === "cpu" ? precision !== "fp32" : confirmsOnGpu && precision === "bf16";
  // An ONNX model has one precision, that of its file.
  const isConfirmed = isLow && !model.session;
  const float32: DeviceConfig = { device, computeDtype: "float32" };
  const classifier = createClassifier(model, model.weights, runtime);
  const confirming = isConfirmed ? createClassifier(model, model.weights, float32) : null;
  const close = (): void => {
    confirming?.close();
    classifier.close();
  };
  try {
    const low = await create(model, classifier, runtime);
    if (!confirming) return { predictor: low, isConfirmed, close };
    const margin = isVote ? Number.POSITIVE_INFINITY : getDecidedMargin(precision);
    const exact = await create(model, confirming, float32);
    return { predictor: confirmAnswers(low, exact, margin), isConfirmed, close };
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * The logit margins of searches, which may overlook a text without claiming anything false. Proofs
 * measure theirs. With 128 levels, the errors of int8 are twice as large.
 */
function getDecidedMargin(precision: string): number {
  if (precision === "bf16") return 0.1;
  return getMaxInputLevel() > 127 ? 0.3 : 0.6;
}
