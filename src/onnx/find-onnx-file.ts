import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readBackend } from "../base/backend.js";
import { UserError } from "../base/errors.js";
import { findWeightsFile } from "../models/checkpoint/checkpoint.js";
import { findOnnxPath, type ModelFolder } from "../models/checkpoint/resolve-model.js";
import { prefersOnnx } from "../tensor/native.js";

export interface OnnxFile {
  readonly path: string;
  /** int8 if its weights have 8 bits. */
  readonly precision: "fp32" | "int8";
}

/** The ONNX file that computes a model, or null: a named file, TEMPER_BACKEND, then what exists. */
export async function findOnnxFile({ folder, name, onnxFile }: ModelFolder): Promise<OnnxFile | null> {
  if (onnxFile !== undefined) return { path: onnxFile, precision: /quantized|int8/.test(onnxFile) ? "int8" : "fp32" };
  const backend = readBackend();
  if (backend === "libtorch") return null;
  const entries = await readdir(folder, { recursive: true }).catch(() => []);
  if (!prefersOnnx() && findWeightsFile(entries) !== null) return null;
  const found = findOnnxPath(entries.map((entry) => entry.replaceAll("\\", "/")));
  if (found !== null) return { ...found, path: join(folder, found.path) };
  if (backend === null) return null;
  throw new UserError(
    `${name}: expected onnx/model.onnx or model.onnx, because TEMPER_BACKEND is onnx; found neither. ` +
      "Export the model where libtorch is installed: temper export RUN --out FOLDER",
  );
}
