// Installs libtorch, which is part of PyTorch's Python package. Nothing needs root.
import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CUDA_HEADERS, wantsCuda } from "./cuda.mjs";
import { findLibtorch, findPython } from "./find.mjs";
import { capture, stream } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {(line: string) => void} Log */
/** @typedef {{ what: string, reason: string }} Attempt */
/** @typedef {{ root: string, env: Environment, log: Log, probe?: (libtorch: Libtorch) => void }} InstallOptions */
/** @typedef {{ what: string, args: string[] }} PipInstallation */
/**
 *  @typedef {{ source: "venv" | "target", command: string[] }} Pip the command of pip and the target of its packages
 */

/** The PyTorch version that Temper is tested with. TEMPER_TORCH selects another one. */
export const TORCH_VERSION = "2.15.0";
const CPU_INDEX = "https://download.pytorch.org/whl/cpu";

/**
 * Installs libtorch in the first way that works.
 * @param {InstallOptions} options
 * @returns {{ libtorch: Libtorch | undefined, attempts: Attempt[] }} attempts: the failures and their reasons
 */
export function installLibtorch(options) {
  const { env, log } = options;
  /** @type {Attempt[]} */
  const attempts = [];
  log("No usable libtorch was found. Temper installs PyTorch's Python package, which contains it.");
  const pip = preparePip(options, attempts);
  for (const installation of pip ? listPipInstallations(env) : []) {
    const place = pip?.source === "venv" ? ".venv" : ".torch";
    log(`Installing ${installation.what} into ${place}`);
    if (!runPip(options, /** @type {Pip} */ (pip), installation)) {
      log("pip failed. Trying the next option.");
      attempts.push({ what: installation.what, reason: "pip failed; see its messages above" });
      continue;
    }
    const { libtorch, rejected } = findLibtorch({ ...options, only: ["venv", "target"] });
    if (libtorch) return { libtorch, attempts };
    attempts.push({ what: installation.what, reason: rejected.at(-1)?.reason ?? "pip installed no torch" });
  }
  return { libtorch: undefined, attempts };
}

/**
 * Lists installations, small downloads first. Without a GPU, most CUDA libraries are omitted.
 * @param {Environment} env
 * @returns {PipInstallation[]}
 */
export function listPipInstallations(env) {
  const torch = `torch==${env.TEMPER_TORCH || TORCH_VERSION}`;
  const complete = { what: `${torch} with all dependencies (3 GB download)`, args: [torch] };
  if (wantsCuda(env)) return [{ what: `${complete.what}, for the GPU`, args: [torch, CUDA_HEADERS] }, complete];
  return [
    {
      what: `${torch} for the CPU only (200 MB download, 1 GB on disk)`,
      args: ["--no-deps", "--index-url", CPU_INDEX, "--retries", "0", "--timeout", "8", torch],
    },
    {
      what: `${torch} with the two CUDA libraries that it needs to load (600 MB download, 1.4 GB on disk; no GPU is used)`,
      args: ["--no-deps", torch, "nvidia-cuda-runtime==13.*", "nvidia-cuda-cupti==13.*"],
    },
    complete,
  ];
}

/**
 * Finds a working pip: that of .venv (created if necessary), or that of the system with .torch as
 * target.
 * @param {InstallOptions} options
 * @param {Attempt[]} attempts
 * @returns {Pip | undefined}
 */
function preparePip({ root, env, log }, attempts) {
  const venvPython = join(root, ".venv/bin/python");
  const hasPip = (/** @type {string[]} */ command) =>
    capture(/** @type {string} */ (command[0]), [...command.slice(1), "--version"], { env }).ok;
  const venvPip = [venvPython, "-m", "pip"];
  if (hasPip(venvPip)) return { source: "venv", command: venvPip };
  const python = findPython(env);
  if (!python) {
    attempts.push({ what: "PyTorch from pip", reason: "python3 is not on PATH" });
    return undefined;
  }
  // A .venv with a working Python but without pip belongs to the user, so do not change it.
  if (!capture(venvPython, ["--version"], { env }).ok) {
    const created = capture(python, ["-m", "venv", "--clear", join(root, ".venv")], { env });
    if (created.ok && hasPip(venvPip)) return { source: "venv", command: venvPip };
    rmSync(join(root, ".venv"), { recursive: true, force: true });
    log("This Python cannot create virtual environments. Using pip --target instead.");
  }
  if (hasPip([python, "-m", "pip"])) return { source: "target", command: [python, "-m", "pip"] };
  log("This Python has no pip. Downloading the wheel of pip (2 MB) into build/pip.");
  const program = join(dirname(fileURLToPath(import.meta.url)), "fetch_pip.py");
  const wheel = capture(python, [program, join(root, "build/pip")], { env });
  if (wheel.ok) return { source: "target", command: [python, `${wheel.output}/pip`] };
  attempts.push({
    what: "PyTorch from pip",
    reason: `this Python has no pip, and pip could not be downloaded (${wheel.reason})`,
  });
  return undefined;
}

/**
 * @param {InstallOptions} options
 * @param {Pip} pip
 * @param {PipInstallation} installation
 */
function runPip({ root, env }, { source, command }, installation) {
  // Only this folder changes, so pip need not warn about running as root.
  const options = { env: { ...env, PIP_ROOT_USER_ACTION: "ignore" } };
  const [program = "", ...first] = command;
  const install = [...first, "install", "--disable-pip-version-check", "--no-warn-script-location"];
  // An existing installation is broken, but pip would keep it without --force-reinstall.
  if (source === "venv") return stream(program, [...install, "--force-reinstall", ...installation.args], options);
  // pip --target fills a folder step by step, so rename it only when it is complete.
  const [partial, target] = [join(root, "build/torch.partial"), join(root, ".torch")];
  rmSync(partial, { recursive: true, force: true });
  if (!stream(program, [...install, "--target", partial, ...installation.args], options)) return false;
  rmSync(target, { recursive: true, force: true });
  renameSync(partial, target);
  return existsSync(target);
}
