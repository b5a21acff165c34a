// Trying things out in a fresh process, so that a broken library can only end that one.
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { wheelRecord } from "./inspect.mjs";
import { capture } from "./process.mjs";

/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */

/**
 * Throws the reason when a libtorch is incomplete or cannot be loaded: files that an interrupted pip left out, libraries cut
 * short, libraries it needs that are not there (a CUDA wheel without CUDA's runtime).
 * @param {Libtorch} libtorch
 */
export function probeLibtorch(libtorch) {
  checkRecord(libtorch);
  for (const name of libtorch.cuda ? ["libtorch_cpu.so", "libtorch_cuda.so"] : ["libtorch_cpu.so"]) {
    const reason = loadFailure(join(libtorch.libraryFolder, name));
    if (reason) throw new Error(`${name} does not load: ${reason}`);
  }
}

/** Compares headers and libraries with the list pip wrote of them. @param {Libtorch} libtorch */
function checkRecord({ path, source }) {
  const record = wheelRecord(path);
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
 * Why a shared library cannot be loaded. Node loads any library; one that is no addon it then refuses in these words.
 * @param {string} library
 * @returns {string | undefined}
 */
export function loadFailure(library) {
  const program =
    "try { process.dlopen({ exports: {} }, process.argv[1]) } catch (error) { console.log(error.message) }";
  const result = capture(process.execPath, ["-e", program, library]);
  if (result.output.includes("did not self-register")) return undefined;
  return result.output || result.reason;
}
