// Finds libtorch in the places where it may be installed, in order.
import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve, sep } from "node:path";
import { inspectLibtorch } from "./inspect.mjs";
import { probeLibtorch } from "./probe.mjs";
import { capture, findOnPath, getErrorMessage } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {import("./inspect.mjs").Source} Source */
/** @typedef {{ path: string, source: Source }} Candidate */
/** @typedef {Candidate & { reason: string }} Rejected */
/**
 * @typedef {object} FindOptions
 * @property {string} root the folder of the package
 * @property {Environment} env
 * @property {Source[]} [only] use only these sources
 * @property {(libtorch: Libtorch) => boolean} [trusted] true if it is known to load, so it is not probed
 * @property {(libtorch: Libtorch) => void} [probe] throws if a libtorch does not load
 * @property {string[]} [systemFolders]
 */

/** The PyTorch version that Temper is tested with. TEMPER_TORCH selects another one. */
export const TORCH_VERSION = "2.15.0";

/** The names of the sources in messages. @type {Record<Source, string>} */
export const SOURCE_NAMES = {
  LIBTORCH: "the LIBTORCH variable",
  python: "the Python on PATH",
  venv: "Temper's .venv",
  target: "Temper's .torch",
  system: "the system",
};

/**
 * Returns the first libtorch that is complete and loads, and why others were rejected. LIBTORCH is
 * the user's choice, so no other libtorch replaces it if it is broken.
 * @param {FindOptions} options
 * @returns {{ libtorch: Libtorch | undefined, rejected: Rejected[] }}
 */
export function findLibtorch(options) {
  const { env, trusted = () => false, probe = probeLibtorch } = options;
  /** @type {Rejected[]} */
  const rejected = [];
  for (const candidate of listCandidates(options)) {
    try {
      const libtorch = inspectLibtorch(candidate.path, candidate.source, env);
      if (!trusted(libtorch)) probe(libtorch);
      return { libtorch, rejected };
    } catch (error) {
      rejected.push({ ...candidate, reason: getErrorMessage(error) });
      if (candidate.source === "LIBTORCH") break;
    }
  }
  return { libtorch: undefined, rejected };
}

/**
 * Lists the candidates lazily, because querying Python is slow.
 * @param {FindOptions} options
 * @returns {Generator<Candidate>}
 */
export function* listCandidates({ root, env, only, systemFolders = ["/usr/local", "/usr"] }) {
  const isIncluded = (/** @type {Source} */ source) => !only || only.includes(source);
  if (env.LIBTORCH && isIncluded("LIBTORCH")) yield { path: findInside(resolve(env.LIBTORCH)), source: "LIBTORCH" };
  const home = getLibtorchHome(root, env);
  const venv = findVenvTorch(home);
  const python = isIncluded("python") ? findPythonTorch(env) : undefined;
  if (python && python !== venv) yield { path: python, source: "python" };
  if (venv && isIncluded("venv")) yield { path: venv, source: "venv" };
  const target = join(home, ".torch/torch");
  if (existsSync(target) && isIncluded("target")) yield { path: target, source: "target" };
  for (const path of systemFolders) {
    if (existsSync(join(path, "include/ATen/ATen.h")) && isIncluded("system")) yield { path, source: "system" };
  }
}

/**
 * Accepts a folder that contains libtorch/ (a downloaded archive) or torch/ (site-packages). @param
 * {string} folder
 */
function findInside(folder) {
  const inner = ["", "libtorch", "torch"].map((name) => join(folder, name));
  return inner.find((path) => existsSync(join(path, "include/ATen/ATen.h"))) ?? folder;
}

/**
 * Returns the folder of the libtorch that setup installs: the checkout, or the user's cache folder if the package is
 * installed. npm replaces node_modules, and the download is too large to repeat.
 * @param {string} root
 * @param {Environment} env
 */
export function getLibtorchHome(root, env) {
  if (!root.split(sep).includes("node_modules")) return root;
  const cache = env.TEMPER_CACHE || join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "temper");
  return join(resolve(cache), `libtorch-${env.TEMPER_TORCH || TORCH_VERSION}`);
}

/** Finds torch in the virtual environment of setup. @param {string} home */
function findVenvTorch(home) {
  const lib = join(home, ".venv/lib");
  const versions = existsSync(lib) ? readdirSync(lib).filter((name) => name.startsWith("python")) : [];
  return versions.map((name) => join(lib, name, "site-packages/torch")).find((path) => existsSync(path));
}

/**
 * Returns the name of the Python on PATH.
 * @param {Environment} env
 */
export function findPython(env) {
  return ["python3", "python"].find((name) => findOnPath(name, env));
}

/**
 * Asks Python for the folder of torch without importing it, which takes seconds. @param
 * {Environment} env
 */
function findPythonTorch(env) {
  const python = findPython(env);
  if (!python) return undefined;
  const query =
    "import importlib.util as u; s = u.find_spec('torch'); print(next(iter(s.submodule_search_locations), '') if s else '')";
  // Python also looks for modules in its working directory, so run it in the root folder.
  const result = capture(/** @type {string} */ (findOnPath(python, env)), ["-c", query], { env, cwd: "/" });
  return result.ok && result.output ? result.output : undefined;
}
