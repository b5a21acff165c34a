import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { closeModel, loadModel, type Model } from "../../models/index.js";
import { findOnnxFile, type OnnxFile } from "../../onnx/find-onnx-file.js";
import { loadOnnxModel } from "../../onnx/load-onnx-model.js";
import {
  applyRuntime,
  type PrecisionNeeds,
  type RuntimeConfig,
  type RuntimeOptions,
  resolveOnnxRuntime,
} from "../../settings/runtime-config.js";
import type { Device } from "../../tensor/index.js";
import type { Tokenization } from "../../text/encoding.js";

export interface ModelRequest extends Pick<Callbacks, "onEvent"> {
  readonly tokenization?: Tokenization | null | undefined;
  readonly maxLength?: number | null | undefined;
}

export interface LocalModel {
  readonly model: Model;
  readonly runtime: RuntimeConfig;
}

export async function loadLocalModel(
  reference: string,
  options: RuntimeOptions & ModelRequest,
  needs: PrecisionNeeds = {},
): Promise<LocalModel> {
  const found = await resolveModel(reference, { onEvent: options.onEvent });
  const file = await findOnnxFile(found);
  if (file) return loadFromOnnx(reference, found.folder, file, options);
  const runtime = applyRuntime(options, needs);
  const model = await loadRequestedModel(reference, runtime.device, { ...options, folder: found.folder });
  return { model, runtime };
}

async function loadFromOnnx(
  reference: string,
  folder: string,
  file: OnnxFile,
  options: RuntimeOptions & ModelRequest,
): Promise<LocalModel> {
  const runtime = resolveOnnxRuntime(options, file.precision);
  const { tokenization, maxLength } = options;
  const model = await loadOnnxModel(reference, folder, file, {
    threads: runtime.threads,
    ...(tokenization && { tokenization }),
    ...(maxLength && { maxLength }),
  });
  return { model: checkTokenization(model, tokenization), runtime };
}

/**
 * Loads the model that a request names. The settings of a trained model win, so an option that
 * contradicts them is a mistake.
 */
async function loadRequestedModel(
  reference: string,
  device: Device,
  request: ModelRequest & { readonly folder?: string },
): Promise<Model> {
  const { tokenization, maxLength, onEvent, folder } = request;
  const model = await loadModel(reference, {
    device,
    onEvent,
    ...(folder !== undefined && { folder }),
    ...(tokenization && { tokenization }),
    ...(maxLength && { maxLength }),
  });
  return checkTokenization(model, tokenization);
}

function checkTokenization(model: Model, wanted: Tokenization | null | undefined): Model {
  if (!wanted || wanted === model.tokenization) return model;
  closeModel(model);
  throw new UserError(
    `--tokenization: ${model.reference} was trained with ${model.tokenization}, received ${wanted}. ` +
      "Leave the option out.",
  );
}
