import { UserError } from "../errors.js";
import { loadModel } from "../models/load.js";
import { isHeadParameter, type Model } from "../models/model.js";
import { configureRuntime, type RuntimeConfig } from "../runs/runtime-config.js";
import { free } from "../tensor/index.js";
import { createDownloadProgress } from "./download-progress.js";
import type { Io } from "./io.js";

export interface ClassifierOptions {
  device?: string | undefined;
  precision?: RuntimeConfig["precision"] | undefined;
  threads?: number | undefined;
  quiet?: true | undefined;
}

/** Loads a model that can classify, and says where it is computed. The caller frees its weights. */
export async function loadClassifier(
  io: Io,
  reference: string,
  options: ClassifierOptions,
): Promise<{ model: Model; machine: RuntimeConfig }> {
  const { device = "auto", precision = null, threads = null } = options;
  const machine = configureRuntime({ device, precision, threads });
  const downloads = createDownloadProgress(io, options.quiet);
  const model = await loadModel(reference, { device: machine.device, onProgress: downloads.onProgress }).finally(
    downloads.end,
  );
  if (!model.newlyInitialized.some(isHeadParameter)) return { model, machine };
  free(model.weights);
  throw new UserError(
    `${reference}: this model has no classification head yet; train one first: temper train --model ${reference} --task …`,
  );
}
