// Where a libtorch may lie, in the order in which they are tried.
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { inspectLibtorch } from "./inspect.mjs";
import { probeLibtorch } from "./probe.mjs";
import { capture, messageOf, onPath } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {import("./inspect.mjs").Source} Source */
/** @typedef {{ path: string, source: Source }} Candidate */
/** @typedef {Candidate & { reason: string }} Rejected */
/**
 * @typedef {object} FindOptions
 * @property {string} root the package's folder, where .venv and .torch lie
 * @property {Environment} env
 * @property {Source[]} [only] look at these sources alone
 * @property {(libtorch: Libtorch) => boolean} [trusted] true: known to load, so no need to try
 * @property {(libtorch: Libtorch) => void} [probe] throws the reason when a libtorch does not load
 * @property {string[]} [systemFolders]
 */

/** How each source is called in messages. @type {Record<Source, string>} */
export const SOURCE_NAMES = {
  LIBTORCH: "the LIBTORCH variable",
  python: "the Python on PATH",
  venv: "the project's .venv",
  target: "the project's .torch",
  system: "the system",
};

/**
 * The first libtorch that is whole and loads, and why those before it were passed over. A libtorch named by LIBTORCH is the
 * user's choice: when it is broken, no other takes its place.
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
      rejected.push({ ...candidate, reason: messageOf(error) });
      if (candidate.source === "LIBTORCH") break;
    }
  }
  return { libtorch: undefined, rejected };
}

/**
 * Lazily, since asking Python takes a while.
 * @param {FindOptions} options
 * @returns {Generator<Candidate>}
 */
export function* listCandidates({ root, env, only, systemFolders = ["/usr/local", "/usr"] }) {
  const wanted = (/** @type {Source} */ source) => !only || only.includes(source);
  if (env.LIBTORCH && wanted("LIBTORCH")) yield { path: unwrap(resolve(env.LIBTORCH)), source: "LIBTORCH" };
  const venv = venvTorch(root);
  const python = wanted("python") ? pythonTorch(env) : undefined;
  if (python && python !== venv) yield { path: python, source: "python" };
  if (venv && wanted("venv")) yield { path: venv, source: "venv" };
  const target = join(root, ".torch/torch");
  if (existsSync(target) && wanted("target")) yield { path: target, source: "target" };
  for (const path of systemFolders) {
    if (existsSync(join(path, "include/ATen/ATen.h")) && wanted("system")) yield { path, source: "system" };
  }
}

/** LIBTORCH may also name a folder with libtorch/ (the downloaded archive) or torch/ (site-packages) in it. @param {string} folder */
function unwrap(folder) {
  const inner = ["", "libtorch", "torch"].map((name) => join(folder, name));
  return inner.find((path) => existsSync(join(path, "include/ATen/ATen.h"))) ?? folder;
}

/** The torch of the project's own virtual environment. @param {string} root */
function venvTorch(root) {
  const lib = join(root, ".venv/lib");
  const versions = existsSync(lib) ? readdirSync(lib).filter((name) => name.startsWith("python")) : [];
  return versions.map((name) => join(lib, name, "site-packages/torch")).find((path) => existsSync(path));
}

/**
 * The name of the Python on PATH.
 * @param {Environment} env
 */
export function findPython(env) {
  return ["python3", "python"].find((name) => onPath(name, env));
}

/** Asks where torch lies without importing it, which takes seconds. @param {Environment} env */
function pythonTorch(env) {
  const python = findPython(env);
  if (!python) return undefined;
  const question =
    "import importlib.util as u; s = u.find_spec('torch'); print(next(iter(s.submodule_search_locations), '') if s else '')";
  // From the root folder, since Python also looks for modules where it is started.
  const answer = capture(/** @type {string} */ (onPath(python, env)), ["-c", question], { env, cwd: "/" });
  return answer.ok && answer.output ? answer.output : undefined;
}
