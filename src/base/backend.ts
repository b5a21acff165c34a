import { UserError } from "./errors.js";

/**
 * The backend that TEMPER_BACKEND names; null: ONNX Runtime for models that have nothing but an
 * ONNX file, libtorch for all others.
 */
export function readBackend(): "libtorch" | "onnx" | null {
  const name = process.env.TEMPER_BACKEND;
  if (name === undefined || name === "") return null;
  if (name === "onnx" || name === "libtorch") return name;
  throw new UserError(`TEMPER_BACKEND: expected onnx or libtorch, received ${JSON.stringify(name)}.`);
}
