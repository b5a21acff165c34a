import { UserError } from "./errors.js";

/** What computes models: libtorch, or ONNX Runtime, which cannot train and has no gradients. */
export type Backend = "libtorch" | "onnx";

/**
 * The backend that TEMPER_BACKEND names; null: ONNX Runtime for models that have nothing but an
 * ONNX file, libtorch for all others.
 */
export function readBackend(): Backend | null {
  const name = process.env.TEMPER_BACKEND;
  if (name === undefined || name === "") return null;
  if (name === "onnx" || name === "libtorch") return name;
  throw new UserError(`TEMPER_BACKEND: expected onnx or libtorch, received ${JSON.stringify(name)}.`);
}
