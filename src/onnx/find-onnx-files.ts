import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readBackend } from "../base/backend.js";
import { UserError } from "../base/errors.js";
import { findWeightsFile } from "../models/checkpoint/checkpoint.js";
import { findOnnxPath, type ModelFolder, onnxNames } from "../models/checkpoint/resolve-model.js";
import { prefersOnnx } from "../tensor/native.js";

export interface OnnxFiles {
  readonly full: string | null;
  readonly quantized: string | null;
}

/** The ONNX files that compute a model, or null: a named file, TEMPER_BACKEND, then what exists. */
export async function findOnnxFiles({ folder, name, onnxFile }: ModelFolder): Promise<OnnxFiles | null> {
  if (onnxFile !== undefined)
    return /quantized|int8/.test(onnxFile) ? { full: null, quantized: onnxFile } : { full: onnxFile, quantized: null };
  const backend = readBackend();
  if (backend === "libtorch") return null;
  const entries = await readdir(folder, { recursive: true }).catch(() => []);
  if (!prefersOnnx() && findWeightsFile(entries) !== null) return null;
  const paths = entries.map((entry) => entry.replaceAll("\\", "/"));
  const locate = (names: readonly string[]): string | null => {
    const found = findOnnxPath(paths, names);
    return found === null ? null : join(folder, found);
  };
  const files = { full: locate(onnxNames.full), quantized: locate(onnxNames.quantized) };
  if (files.full !== null || files.quantized !== null) return files;
  if (backend === null) return null;
  throw new UserError(
    `${name}: expected onnx/model.onnx or model.onnx, because TEMPER_BACKEND is onnx; found neither. ` +
      "Export the model where libtorch is installed: temper export RUN --out FOLDER",
  );
}
