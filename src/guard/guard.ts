import { UserError } from "../base/errors.js";
import { predictByParts } from "../models/inference/predict-by-parts.js";
import { getTieMargin } from "../models/inference/tie-margin.js";
import type { OnnxRuntime } from "../onnx/onnx-classifier.js";
import { openPortableModel, type ReadFile, readFolderJson } from "../onnx/portable-model.js";
import { findHiddenText, type HiddenText } from "../text/hidden-text.js";
import { listWindowSizes, listWindows } from "../text/windows.js";

export interface GuardOptions {
  /** Flag texts whose score is above. Default: as calibrated, else 0.5. */
  readonly threshold?: number;
  /** The label that is flagged. Default: as calibrated, else the second of two. */
  readonly positiveLabel?: string;
  /** Maximum words per window; null for complete texts. Default: as calibrated, else null. */
  readonly windows?: number | null;
  /** Use the 8-bit file of the folder. Default: only if there is no other. */
  readonly quantized?: boolean;
  /** Threads of the model. Default: 1. */
  readonly threads?: number;
  /** ONNX Runtime for the model, such as `onnxruntime-web/wasm`. Default: that of the platform. */
  readonly runtime?: OnnxRuntime;
}

export interface GuardAnswer {
  /** True if the score is above the threshold. */
  readonly flagged: boolean;
  /** The probability of the label that is flagged; with windows, the largest of any window. */
  readonly score: number;
  readonly threshold: number;
  /** True if no text before or after, behind white space, can keep this text from being flagged. */
  readonly certified: boolean;
  /** Text that a language model reads, but a person does not see; null if there is none. */
  readonly hidden: HiddenText | null;
  /** True if the model has not read the end of the text. */
  readonly truncated: boolean;
}

/** A classifier that flags texts. */
export interface LoadedGuard {
  readonly labels: readonly string[];
  /** The label that is flagged. */
  readonly positiveLabel: string;
  check(text: string): Promise<GuardAnswer>;
  /** Checks several texts. Many together are faster than one after the other. */
  checkAll(texts: readonly string[]): Promise<GuardAnswer[]>;
  close(): void;
}

interface CalibrationFile {
  readonly threshold: number;
  readonly positiveLabel: string;
  readonly windows: number | null;
}

/** Opens a guard whose files are read by a function. */
export async function openGuard(read: ReadFile, runtime: OnnxRuntime, options: GuardOptions): Promise<LoadedGuard> {
  const calibration = (await readFolderJson(read, "calibration.json")) as CalibrationFile | null;
  const { windows = calibration?.windows ?? null } = options;
  const model = await openPortableModel(read, runtime, options);
  const { labels } = model;
  const positiveLabel = options.positiveLabel ?? calibration?.positiveLabel ?? (labels.length === 2 ? labels[1]! : "");
  const positive = labels.indexOf(positiveLabel);
  const isCalibrated = calibration?.windows === windows && calibration.positiveLabel === positiveLabel;
  const threshold = options.threshold ?? (isCalibrated ? calibration.threshold : 0.5);
  if (positive < 0 || (calibration && !isCalibrated && options.threshold === undefined)) {
    model.close();
    throw new UserError(
      positive < 0
        ? `positiveLabel: expected one of ${labels.join(", ")}, received ${JSON.stringify(positiveLabel)}.`
        : `The threshold was calibrated for windows ${calibration!.windows} and the label ${calibration!.positiveLabel}. ` +
            "Use these, or pass a threshold.",
    );
  }
  const sizes = windows === null ? null : listWindowSizes(windows);
  const predictor = predictByParts(model.predictor, {
    split: ([text]) => (sizes ? listWindows(text!, sizes).map((window) => [window]) : [[text!]]),
    // A text without words has no window.
    combine: (rows) => ({ probabilities: [rows.reduce((most, row) => Math.max(most, row[positive]!), 0)] }),
  });
  const checkAll = async (texts: readonly string[]): Promise<GuardAnswer[]> => {
    if (!Array.isArray(texts) || texts.some((text) => typeof text !== "string"))
      throw new UserError("check: expected a text, as a string.");
    const answers = await predictor.predict(predictor.prepare(texts.map((text) => [text])));
    return answers.map(({ probabilities, truncated }, i) => {
      const score = probabilities[0]!;
      // A window that an 8-bit model scores is a batch of its own, so no other text moves its score by more.
      const certified = sizes !== null && score > threshold + getTieMargin("fp32");
      return {
        flagged: score > threshold,
        score,
        threshold,
        certified,
        hidden: findHiddenText([texts[i]!]),
        truncated,
      };
    });
  };
  const check = async (text: string): Promise<GuardAnswer> => (await checkAll([text]))[0]!;
  return { labels, positiveLabel, check, checkAll, close: () => model.close() };
}
