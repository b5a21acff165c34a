import { createRequire } from "node:module";
import { UserError } from "./errors.js";
import { getErrorCode } from "./files.js";

/**
 * Loads a package with binaries. It is either installed itself, as in a checkout, or a part of
 * @temper-nlp/PLATFORM-ARCH, which has only the binaries of this platform. The published package
 * depends on the latter.
 */
export function requireBinaryPackage(name: "onnxruntime-node" | "tokenizers"): unknown {
  return createRequire(import.meta.url)(resolveBinaryPackage(name));
}

export function resolveBinaryPackage(name: "onnxruntime-node" | "tokenizers"): string {
  const { resolve } = createRequire(import.meta.url);
  const platform = `${process.platform}-${process.arch}`;
  for (const path of [name, `@temper-nlp/${platform}/${name}`])
    try {
      return resolve(path);
    } catch (error) {
      if (getErrorCode(error) !== "MODULE_NOT_FOUND") throw error;
    }
  throw new UserError(
    `${name} is not installed, and there is no @temper-nlp/${platform} with it (npm install --ignore-scripts ${name})`,
  );
}
