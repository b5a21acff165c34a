// Builds the addon with CMake and verifies it.
import { existsSync, mkdirSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, freemem } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { capture, findOnPath, SetupError, stream } from "./process.mjs";
import { computeStamp, readJson, writeJson } from "./stamp.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {import("./stamp.mjs").Stamp} Stamp */

const STAMP = "stamp.json";

/**
 * Returns the build folder: TEMPER_BUILD, or build/native.
 * @param {string} root
 * @param {Environment} env
 */
export function getBuildFolder(root, env) {
  return resolve(root, env.TEMPER_BUILD || "build/native");
}

/**
 * Decides what to build: nothing, only changed sources, or everything (another libtorch, an
 * interrupted build).
 * @param {string} root
 * @param {string} folder
 * @param {Libtorch} libtorch
 * @returns {"nothing" | "sources" | "everything"}
 */
export function decideWhatToBuild(root, folder, libtorch) {
  const before = /** @type {Stamp | undefined} */ (readJson(join(folder, STAMP)));
  const now = computeStamp(root, libtorch);
  if (before?.libtorch !== now.libtorch) return "everything";
  return before.sources === now.sources && existsSync(join(folder, "temper.node")) ? "nothing" : "sources";
}

/**
 * Builds temper.node in a folder. `completeBuild` marks the build as complete.
 * `rpath` replaces the folder of libtorch in the addon. `hasAsan` builds with AddressSanitizer.
 * @param {{ root: string, folder: string, libtorch: Libtorch, env: Environment, clean: boolean, rpath?: string,
 *   hasAsan?: boolean }} options
 */
export function buildAddon({ root, folder, libtorch, env, clean, rpath, hasAsan = false }) {
  const tools = ["cmake", env.CXX?.split(" ")[0] || "c++"].filter(
    (name) => !existsSync(name) && !findOnPath(name, env),
  );
  if (tools.length > 0) {
    throw new SetupError(
      `Building the addon needs ${tools.join(" and ")}. On Debian or Ubuntu: apt-get install cmake make g++`,
    );
  }
  const nodeApi = findNodeHeaders(root);
  rmSync(clean ? folder : join(folder, "temper.node"), { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const cuda = libtorch.cuda;
  const definitions = {
    NODE_API_HEADERS: nodeApi,
    LIBTORCH_INCLUDES: libtorch.includes.join(";"),
    LIBTORCH_LIBRARIES: libtorch.libraryFolder,
    LIBTORCH_CXX11_ABI: libtorch.cxx11Abi ? "1" : "0",
    ...(rpath && { TEMPER_RPATH: rpath }),
    ...(hasAsan && { TEMPER_ASAN: "ON" }),
    ...(cuda && { TEMPER_CUDA: "ON", CUDA_INCLUDES: cuda.includes.join(";"), CUDA_RUNTIME: cuda.runtime }),
  };
  const flags = Object.entries(definitions).map(([name, value]) => `-D${name}=${value}`);
  // The compiler needs about 1.5 GB per file.
  const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(freemem() / 1.5e9)));
  // A make that runs this has its own number of jobs.
  const options = { env: { ...env, MAKEFLAGS: undefined } };
  const built =
    stream("cmake", ["-S", join(root, "native"), "-B", folder, "-Wno-dev", ...flags], options) &&
    stream("cmake", ["--build", folder, "--parallel", String(jobs)], options);
  if (!built)
    throw new SetupError(
      `The addon could not be built against libtorch ${libtorch.version} (${libtorch.path}). See the messages above.`,
    );
}

/** Returns the folder of Node's C headers. @param {string} root */
function findNodeHeaders(root) {
  try {
    return join(dirname(createRequire(join(root, "package.json")).resolve("node-api-headers/package.json")), "include");
  } catch {
    throw new SetupError(
      "The npm package node-api-headers is missing. Run `npm ci` in a checkout, or install temper-nlp again.",
    );
  }
}

/**
 * Loads the addon in a new process and computes a sum. A libtorch that does not match the headers
 * may load and fail later, so this compares the path and the version of the library too.
 * @param {string} folder
 * @param {Libtorch} libtorch
 * @param {Environment} env
 * @returns {string | undefined} the reason if it does not work
 */
export function verifyAddon(folder, libtorch, env) {
  const program = join(dirname(fileURLToPath(import.meta.url)), "verify.cjs");
  const result = capture(process.execPath, [program, join(folder, "temper.node")], { env, timeout: 120_000 });
  if (!result.ok) return result.reason;
  const { sum, library, version } = /** @type {{ sum: number, library: string, version: string }} */ (
    JSON.parse(result.output)
  );
  const expected = realpathSync(join(libtorch.libraryFolder, "libtorch_cpu.so"));
  if (realpathSync(library) !== expected) return `it loads ${library} instead of ${expected}`;
  if (version !== libtorch.version)
    return `its headers have version ${libtorch.version}, but its library has ${version}`;
  return sum === 6 ? undefined : `1 + 2 + 3 gave ${sum}`;
}

/**
 * Marks a verified build as complete, and writes the information for `temper doctor`.
 * @param {string} root
 * @param {string} folder
 * @param {Libtorch} libtorch
 * @param {boolean} [prebuilt] whether the addon was not compiled here
 */
export function completeBuild(root, folder, libtorch, prebuilt = false) {
  const { path, version, source, cxx11Abi } = libtorch;
  const facts = { path, version, source, cuda: libtorch.cuda !== undefined, cxx11Abi, prebuilt };
  writeJson(join(folder, "libtorch.json"), facts);
  writeJson(join(folder, STAMP), computeStamp(root, libtorch));
}
