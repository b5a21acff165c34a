// Getting a libtorch where none is there: PyTorch's Python package holds one. Root is needed for Debian's package only.
import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CUDA_HEADERS, wantsCuda } from "./cuda.mjs";
import { installDebian } from "./debian.mjs";
import { findLibtorch, findPython } from "./find.mjs";
import { capture, stream } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {(line: string) => void} Log */
/** @typedef {{ what: string, reason: string }} Attempt */
/** @typedef {{ root: string, env: Environment, log: Log, probe?: (libtorch: Libtorch) => void }} InstallOptions */
/** @typedef {{ what: string, args: string[] }} Way */
/** @typedef {{ source: "venv" | "target", command: string[] }} Pip how to call pip, and where its packages go */

/** The PyTorch that Temper is tested with; TEMPER_TORCH names another version. */
export const TORCH_VERSION = "2.15.0";
const CPU_INDEX = "https://download.pytorch.org/whl/cpu";

/**
 * Installs a libtorch by the first way that gives one that loads.
 * @param {InstallOptions} options
 * @returns {{ libtorch: Libtorch | undefined, attempts: Attempt[] }} attempts: the ways that failed, and why
 */
export function installLibtorch(options) {
  const { env, log } = options;
  /** @type {Attempt[]} */
  const attempts = [];
  log("No usable libtorch was found. It is the engine Temper computes with; PyTorch's Python package holds it.");
  const pip = preparePip(options, attempts);
  for (const way of pip ? pipWays(env) : []) {
    const place = pip?.source === "venv" ? ".venv" : ".torch";
    log(`Installing ${way.what} into ${place}`);
    if (!runPip(options, /** @type {Pip} */ (pip), way)) {
      log("pip could not get that: trying the next way.");
      attempts.push({ what: way.what, reason: "pip failed; its lines are above" });
      continue;
    }
    const { libtorch, rejected } = findLibtorch({ ...options, only: ["venv", "target"] });
    if (libtorch) return { libtorch, attempts };
    attempts.push({ what: way.what, reason: rejected.at(-1)?.reason ?? "pip left no torch behind" });
  }
  return installDebian(options, attempts);
}

/**
 * Small downloads first. Without a GPU, the CUDA libraries that libtorch's CPU part never calls are left out.
 * @param {Environment} env
 * @returns {Way[]}
 */
export function pipWays(env) {
  const torch = `torch==${env.TEMPER_TORCH || TORCH_VERSION}`;
  const whole = { what: `${torch} with all it asks for (about 3 GB to download)`, args: [torch] };
  if (wantsCuda(env)) return [{ what: `${whole.what}, for the GPU`, args: [torch, CUDA_HEADERS] }, whole];
  return [
    {
      what: `${torch} for the CPU alone (about 200 MB to download, 1 GB on disk)`,
      args: ["--no-deps", "--index-url", CPU_INDEX, "--retries", "0", "--timeout", "8", torch],
    },
    {
      what: `${torch} with the two CUDA libraries it cannot be loaded without (about 600 MB to download, 1.4 GB on disk; no GPU is used)`,
      args: ["--no-deps", torch, "nvidia-cuda-runtime==13.*", "nvidia-cuda-cupti==13.*"],
    },
    whole,
  ];
}

/**
 * A pip that can install: the .venv's (made if need be), or the system's into .torch where Python comes without venv.
 * @param {InstallOptions} options
 * @param {Attempt[]} attempts
 * @returns {Pip | undefined}
 */
function preparePip({ root, env, log }, attempts) {
  const venvPython = join(root, ".venv/bin/python");
  const hasPip = (/** @type {string[]} */ command) =>
    capture(/** @type {string} */ (command[0]), [...command.slice(1), "--version"], { env }).ok;
  const own = [venvPython, "-m", "pip"];
  if (hasPip(own)) return { source: "venv", command: own };
  const python = findPython(env);
  if (!python) {
    attempts.push({ what: "PyTorch by pip", reason: "there is no python3 on PATH" });
    return undefined;
  }
  // A .venv whose Python runs was made without pip by someone else: leave it alone.
  if (!capture(venvPython, ["--version"], { env }).ok) {
    const made = capture(python, ["-m", "venv", "--clear", join(root, ".venv")], { env });
    if (made.ok && hasPip(own)) return { source: "venv", command: own };
    rmSync(join(root, ".venv"), { recursive: true, force: true });
    log("This Python makes no virtual environments: using pip's --target instead.");
  }
  if (hasPip([python, "-m", "pip"])) return { source: "target", command: [python, "-m", "pip"] };
  log("This Python has no pip: downloading pip's own wheel (2 MB) into build/pip, to run it from there.");
  const program = join(dirname(fileURLToPath(import.meta.url)), "fetch_pip.py");
  const wheel = capture(python, [program, join(root, "build/pip")], { env });
  if (wheel.ok) return { source: "target", command: [python, `${wheel.output}/pip`] };
  attempts.push({
    what: "PyTorch by pip",
    reason: `this Python has no pip, and pip could not be downloaded (${wheel.reason})`,
  });
  return undefined;
}

/**
 * @param {InstallOptions} options
 * @param {Pip} pip
 * @param {Way} way
 */
function runPip({ root, env: given }, { source, command }, way) {
  // Nothing outside this folder is touched, so pip need not warn of being run by root.
  const env = { ...given, PIP_ROOT_USER_ACTION: "ignore" };
  const [program = "", ...first] = command;
  const install = [...first, "install", "--disable-pip-version-check", "--no-warn-script-location"];
  // What is there is broken, or we would not be here; pip trusts it unless told otherwise.
  if (source === "venv") return stream(program, [...install, "--force-reinstall", ...way.args], { env });
  // pip's --target fills a folder piece by piece: only a whole one gets its name.
  const [partial, target] = [join(root, "build/torch.partial"), join(root, ".torch")];
  rmSync(partial, { recursive: true, force: true });
  if (!stream(program, [...install, "--target", partial, ...way.args], { env })) return false;
  rmSync(target, { recursive: true, force: true });
  renameSync(partial, target);
  return existsSync(target);
}
