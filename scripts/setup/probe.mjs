// Loads libraries in a separate process, because a broken library may crash it.
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { findWheelRecord } from "./inspect.mjs";
import { capture } from "./process.mjs";

/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */

/**
 * Throws if a libtorch is incomplete or cannot be loaded: missing files, truncated libraries, or
 * missing dependencies (a CUDA wheel without CUDA's runtime).
 * @param {Libtorch} libtorch
 */
export function probeLibtorch(libtorch) {
  checkRecord(libtorch);
  for (const name of libtorch.cuda ? ["libtorch_cpu.so", "libtorch_cuda.so"] : ["libtorch_cpu.so"]) {
    const reason = getLoadFailure(join(libtorch.libraryFolder, name));
    if (reason) throw new Error(`${name} does not load: ${reason}`);
  }
}

/** Compares headers and libraries with pip's list of installed files. @param {Libtorch} libtorch */
function checkRecord({ path, source }) {
  const record = findWheelRecord(path);
  if (!record) {
    if (source === "venv" || source === "target") throw new Error("its installation was interrupted");
    return;
  }
  const site = dirname(path);
  for (const line of readFileSync(record, "utf8").split("\n")) {
    const [, file, size] = line.match(/^(torch\/(?:include|lib)\/[^,"]+),[^,]*,(\d+)\r?$/) ?? [];
    if (!file) continue;
    const actual = statSync(join(site, file), { throwIfNoEntry: false })?.size;
    if (actual === undefined) throw new Error(`${file} is missing`);
    if (actual !== Number(size)) throw new Error(`${file} has ${actual} bytes instead of ${size}`);
  }
}

/**
 * Explains why a shared library cannot be loaded. If it can, Node reports that it is not an addon.
 * @param {string} library
 * @returns {string | undefined}
 */
export function getLoadFailure(library) {
  const program =
    "try { process.dlopen({ exports: {} }, process.argv[1]) } catch (error) { console.log(error.message) }";
  const result = capture(process.execPath, ["-e", program, library]);
  if (result.output.includes("did not self-register")) return undefined;
  return result.output || result.reason;
}
