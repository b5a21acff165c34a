import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { closeModel, loadModel, type Model, type ModelSession } from "../../models/index.js";
import { findOnnxFiles, type OnnxFiles } from "../../onnx/find-onnx-files.js";
import { loadOnnxModel, openSession } from "../../onnx/load-onnx-model.js";
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

/** A model and how it is computed. */
export interface LocalModel {
  readonly model: Model;
  readonly runtime: RuntimeConfig;
  /** The 8-bit file of an ONNX model, for searches that its float32 file confirms. */
  readonly quantized: ModelSession | null;
}

/** Loads a model on libtorch, or on ONNX Runtime if that is what it has or what the user wants. */
export async function loadLocalModel(
  reference: string,
  options: RuntimeOptions & ModelRequest,
  needs: PrecisionNeeds = {},
): Promise<LocalModel> {
  const isQuantized = options.precision === "int8";
  const found = await resolveModel(reference, { onEvent: options.onEvent, isQuantized });
  const files = await findOnnxFiles(found);
  if (files) return loadFromOnnx(reference, found.folder, files, options);
  const runtime = applyRuntime(options, needs);
  const model = await loadRequestedModel(reference, runtime.device, { ...options, folder: found.folder });
  return { model, runtime, quantized: null };
}

async function loadFromOnnx(
  reference: string,
  folder: string,
  { full, quantized }: OnnxFiles,
  options: RuntimeOptions & ModelRequest,
): Promise<LocalModel> {
  const wanted = resolveOnnxRuntime(options);
  const { threads } = wanted;
  if (wanted.precision === "int8" && quantized === null)
    throw new UserError(
      `--precision int8: ${reference} has no onnx/model_quantized.onnx. ` +
        "Leave --precision out, or export it with temper export --quantize int8.",
    );
  // A folder with one file has the precision of that file.
  const runtime: RuntimeConfig = { ...wanted, precision: full === null ? "int8" : wanted.precision };
  const { tokenization, maxLength } = options;
  const model = checkTokenization(
    await loadOnnxModel(reference, folder, (full ?? quantized)!, {
      threads,
      ...(tokenization && { tokenization }),
      ...(maxLength && { maxLength }),
    }),
    tokenization,
  );
  if (full === null || runtime.precision !== "int8") return { model, runtime, quantized: null };
  try {
    const { exportedFrom } = model.session!;
    return { model, runtime, quantized: await openSession(quantized!, { ...model, exportedFrom }, threads) };
  } catch (error) {
    closeModel(model);
    throw error;
  }
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
