import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { closeModel, loadModel, type Model } from "../../models/index.js";
import { findOnnxFile } from "../../onnx/find-onnx-file.js";
import { loadOnnxModel } from "../../onnx/load-onnx-model.js";
import {
  applyRuntime,
  type PrecisionNeeds,
  type RuntimeConfig,
  type RuntimeOptions,
  resolveOnnxRuntime,
} from "../../settings/runtime-config.js";
import type { Tokenization } from "../../text/encoding.js";

/**
 * Loads the model that a request names. The settings of a trained model win, so an option that
 * contradicts them is a mistake.
 */
export async function loadLocalModel(
  reference: string,
  {
    tokenization,
    maxLength,
    onEvent,
    ...options
  }: RuntimeOptions &
    Pick<Callbacks, "onEvent"> & {
      readonly tokenization?: Tokenization | null | undefined;
      readonly maxLength?: number | null | undefined;
    },
  needs: PrecisionNeeds = {},
): Promise<{ readonly model: Model; readonly runtime: RuntimeConfig }> {
  const found = await resolveModel(reference, { onEvent });
  const file = await findOnnxFile(found);
  const { folder } = found;
  const text = { ...(tokenization && { tokenization }), ...(maxLength && { maxLength }) };
  const runtime = file ? resolveOnnxRuntime(options, file.precision) : applyRuntime(options, needs);
  const { device, threads } = runtime;
  const model = file
    ? await loadOnnxModel(reference, folder, file, { threads, ...text })
    : await loadModel(reference, { device, onEvent, folder, ...text });
  return { model: checkTokenization(model, tokenization), runtime };
}

function checkTokenization(model: Model, wanted: Tokenization | null | undefined): Model {
  if (!wanted || wanted === model.tokenization) return model;
  closeModel(model);
  throw new UserError(
    `--tokenization: ${model.reference} was trained with ${model.tokenization}, received ${wanted}. ` +
      "Leave the option out.",
  );
}
