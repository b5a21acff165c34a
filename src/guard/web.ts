import { UserError } from "../base/errors.js";
import type { ReadFile } from "../onnx/portable-model.js";
import { type GuardOptions, type LoadedGuard, openGuard } from "./guard.js";

/** `loadGuard` of browsers and workers: `source` is the URL of a folder, or reads a file. */
export async function loadGuard(source: string | ReadFile, options: GuardOptions = {}): Promise<LoadedGuard> {
  const { runtime } = options;
  if (!runtime)
    throw new UserError('runtime: expected an ONNX Runtime: import * as runtime from "onnxruntime-web/wasm".');
  return openGuard(typeof source === "string" ? fetchFrom(source) : source, runtime, options);
}

function fetchFrom(folder: string): ReadFile {
  return async (path) => {
    const response = await fetch(`${folder.replace(/\/$/, "")}/${path}`);
    if (response.ok) return new Uint8Array(await response.arrayBuffer());
    if (response.status === 404) return null;
    throw new UserError(`${path}: expected status 200, received ${response.status}.`);
  };
}
