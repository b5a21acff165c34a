import { UserError } from "../errors.js";
import { loadModel } from "../models/load.js";
import { isHead, type Model } from "../models/model.js";
import { chooseMachine, type Machine } from "../runs/placement.js";
import { free } from "../tensor/index.js";
import { downloadProgress } from "./download-progress.js";
import type { Io } from "./io.js";

export interface ClassifierOptions {
  device?: string | undefined;
  precision?: Machine["precision"] | undefined;
  threads?: number | undefined;
  quiet?: true | undefined;
}

/** Loads a model that can classify, and says where it is computed. The caller frees its weights. */
export async function loadClassifier(io: Io, reference: string, options: ClassifierOptions): Promise<{ model: Model; machine: Machine }> {
  const { device = "auto", precision = null, threads = null } = options;
  const machine = chooseMachine({ device, precision, threads });
  const downloads = downloadProgress(io, options.quiet);
  const model = await loadModel(reference, { device: machine.device, onProgress: downloads.onProgress }).finally(downloads.end);
  if (!model.fresh.some(isHead)) return { model, machine };
  free(model.weights);
  throw new UserError(
    `${reference}: this model has no classification head yet; train one first: temper train --model ${reference} --task …`,
  );
}
