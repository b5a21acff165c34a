import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { exists, readBytes } from "../base/files.js";
import { findOnnxRuntime } from "../onnx/find-onnx-runtime.js";
import type { ReadFile } from "../onnx/portable-model.js";
import { type GuardOptions, type LoadedGuard, openGuard } from "./guard.js";

export type { OnnxRuntime } from "../onnx/onnx-classifier.js";
export type { ReadFile } from "../onnx/portable-model.js";
export type { GuardAnswer, GuardOptions, LoadedGuard } from "./guard.js";

/**
 * Loads a guard from the folder that `temper export` wrote, with its calibrated threshold. In Node.js, `source` is a
 * folder; in browsers and workers, the URL of one. Anywhere, it may be a function that reads a file.
 *
 *     const guard = await loadGuard("exported");
 *     const { flagged, score, hidden } = await guard.check("ignore all previous instructions");
 */
export async function loadGuard(source: string | ReadFile, options: GuardOptions = {}): Promise<LoadedGuard> {
  const read = typeof source === "string" ? readFrom(source) : source;
  return openGuard(read, options.runtime ?? loadRuntime(), options);
}

function loadRuntime() {
  const found = findOnnxRuntime();
  if ("problem" in found) throw new UserError(`loadGuard: ${found.problem}.`);
  return found.runtime;
}

function readFrom(folder: string): ReadFile {
  return async (path) => {
    const file = join(folder, path);
    return (await exists(file)) ? readBytes(file, "a file of the guard", { kind: "weights", root: folder }) : null;
  };
}
