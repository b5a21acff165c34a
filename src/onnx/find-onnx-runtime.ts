import { requireBinaryPackage } from "../base/binary-packages.js";
import { getErrorMessage, UserError } from "../base/errors.js";

export function findOnnxRuntime():
  | { readonly runtime: typeof import("onnxruntime-node") }
  | { readonly problem: string } {
  try {
    return { runtime: requireBinaryPackage("onnxruntime-node") as typeof import("onnxruntime-node") };
  } catch (error) {
    const [reason] = getErrorMessage(error).split("\n");
    return { problem: error instanceof UserError ? reason! : `onnxruntime-node does not load: ${reason}` };
  }
}
