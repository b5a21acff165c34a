// Records the inputs of a build. The stamp is written last and atomically, so an interrupted build
// has none.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/**
 * @typedef {object} Stamp
 * @property {string} libtorch hash of libtorch (path, version, libraries), Node and the path of the checkout
 * @property {string} sources hash of native/
 */

/**
 * Computes the stamp of a build from these inputs.
 * @param {string} root
 * @param {Libtorch} libtorch
 * @returns {Stamp}
 */
export function computeStamp(root, libtorch) {
  const { withoutCuda: _, ...inputs } = libtorch;
  const names = ["libc10.so", "libtorch_cpu.so", ...(libtorch.cuda ? ["libc10_cuda.so", "libtorch_cuda.so"] : [])];
  const libraries = names.map((name) => {
    const { size, mtimeMs } = statSync(join(libtorch.libraryFolder, name));
    return [name, size, mtimeMs];
  });
  const node = [process.versions.modules, process.arch];
  return {
    libtorch: hash([JSON.stringify({ root, inputs, libraries, node })]),
    sources: hashSources(join(root, "native")),
  };
}

/**
 * Hashes the sources of the addon in all folders, with Gloo's headers. Kernels of the GPU are compiled at run time and
 * do not count.
 * @param {string} folder
 */
export function hashSources(folder) {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(cc|h|txt)$/.test(name))
    .sort();
  return hash(names.flatMap((name) => [name, readFileSync(join(folder, name))]));
}

/** @param {(string | Buffer)[]} parts */
function hash(parts) {
  const sum = createHash("sha256");
  for (const part of parts) sum.update(String(part.length)).update(":").update(part);
  return sum.digest("hex");
}

/**
 * Reads a JSON file. Returns undefined if it is missing or broken.
 * @param {string} file
 * @returns {unknown}
 */
export function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Writes a JSON file atomically.
 * @param {string} file
 * @param {unknown} value
 */
export function writeJson(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  const partial = `${file}.${process.pid}`;
  writeFileSync(partial, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(partial, file);
}
