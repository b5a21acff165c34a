// Installs libtorch, which is part of PyTorch's Python package. Nothing needs root.
import { mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CUDA_HEADERS, wantsCuda } from "./cuda.mjs";
import { findLibtorch, findPython, getLibtorchHome, TORCH_VERSION } from "./find.mjs";
import { capture, stream } from "./process.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/** @typedef {(line: string) => void} Log */
/** @typedef {{ what: string, reason: string }} Attempt */
/** @typedef {{ root: string, env: Environment, log: Log, probe?: (libtorch: Libtorch) => void }} InstallOptions */
/**
 *  @typedef {{ source: "venv" | "target", command: string[] }} Pip the command of pip and the target of its packages
 */

const folder = dirname(fileURLToPath(import.meta.url));
/** @param {"cpu" | "cuda" | "pip"} name packages with their versions and SHA-256 */
const getRequirements = (name) => ["--require-hashes", "-r", join(folder, "requirements", `${name}.txt`)];

/**
 * Installs libtorch with pip.
 * @param {InstallOptions} options
 * @returns {{ libtorch: Libtorch | undefined, attempts: Attempt[] }} attempts: the failures and their reasons
 */
export function installLibtorch(options) {
  const { env, log } = options;
  /** @type {Attempt[]} */
  const attempts = [];
  log("No usable libtorch was found. Temper installs PyTorch's Python package, which contains it.");
  const home = getLibtorchHome(options.root, env);
  mkdirSync(home, { recursive: true });
  const pip = preparePip({ ...options, home }, attempts);
  if (!pip) return { libtorch: undefined, attempts };
  const { what, args } = choosePackages(env);
  log(`Installing ${what} into ${join(home, pip.source === "venv" ? ".venv" : ".torch")}`);
  if (!runPip(home, env, pip, args)) {
    attempts.push({ what, reason: "pip failed; see its messages above" });
    return { libtorch: undefined, attempts };
  }
  const { libtorch, rejected } = findLibtorch({ ...options, only: ["venv", "target"] });
  if (!libtorch) attempts.push({ what, reason: rejected.at(-1)?.reason ?? "pip installed no torch" });
  return { libtorch, attempts };
}

/**
 * Chooses the packages. Without a GPU, these are only the ones that a CPU needs. The versions and checksums of
 * TORCH_VERSION are known. Those of TEMPER_TORCH are the user's choice.
 * @param {Environment} env
 */
export function choosePackages(env) {
  const isCuda = wantsCuda(env);
  const size = isCuda ? "with CUDA (3 GB download)" : "for the CPU (600 MB download, 1.4 GB on disk)";
  const version = env.TEMPER_TORCH || TORCH_VERSION;
  const torch = `torch==${version}`;
  if (!env.TEMPER_TORCH)
    return { what: `${torch} ${size}`, args: ["--no-deps", ...getRequirements(isCuda ? "cuda" : "cpu")] };
  const what = `${torch} ${size}, without known checksums`;
  if (isCuda) return { what, args: [torch, CUDA_HEADERS] };
  // A build of PyTorch for CPUs has a version such as 2.15.0+cpu, and needs nothing else.
  const libraries = version.includes("+cpu") ? [] : ["nvidia-cuda-runtime==13.*", "nvidia-cuda-cupti==13.*"];
  return { what, args: ["--no-deps", torch, ...libraries] };
}

/**
 * Finds a working pip: that of .venv (created if necessary), or that of the system with .torch as
 * target.
 * @param {InstallOptions & { home: string }} options
 * @param {Attempt[]} attempts
 * @returns {Pip | undefined}
 */
function preparePip({ root, env, log, home }, attempts) {
  const venv = join(home, ".venv");
  const venvPip = [join(venv, "bin/python"), "-m", "pip"];
  const hasPip = ([program = "", ...args] = venvPip) => capture(program, [...args, "--version"], { env }).ok;
  if (hasPip()) return { source: "venv", command: venvPip };
  const python = findPython(env);
  if (!python) {
    attempts.push({ what: "PyTorch from pip", reason: "python3 is not on PATH" });
    return undefined;
  }
  // A .venv with a working Python but without pip belongs to the user, so do not change it.
  if (!capture(join(venv, "bin/python"), ["--version"], { env }).ok) {
    if (capture(python, ["-m", "venv", "--clear", venv], { env }).ok && hasPip()) {
      // Only a new pip continues downloads. An old one works, too.
      capture(join(venv, "bin/python"), ["-m", "pip", "install", ...getRequirements("pip")], { env });
      return { source: "venv", command: venvPip };
    }
    rmSync(venv, { recursive: true, force: true });
    log("This Python cannot create virtual environments. Using pip --target instead.");
  }
  if (hasPip([python, "-m", "pip"])) return { source: "target", command: [python, "-m", "pip"] };
  log("This Python has no pip. Downloading the wheel of pip (2 MB) into build/pip.");
  const wheel = capture(python, [join(folder, "fetch_pip.py"), join(root, "build/pip")], { env });
  if (wheel.ok) return { source: "target", command: [python, `${wheel.output}/pip`] };
  attempts.push({
    what: "PyTorch from pip",
    reason: `this Python has no pip, and pip could not be downloaded (${wheel.reason})`,
  });
  return undefined;
}

/**
 * Runs pip, which shows its progress, continues broken downloads and keeps complete ones in its cache.
 * @param {string} home
 * @param {Environment} env
 * @param {Pip} pip
 * @param {string[]} packages
 */
function runPip(home, env, { source, command: [program = "", ...first] }, packages) {
  // Only this folder changes, so pip need not warn about running as root. An old pip ignores RESUME_RETRIES.
  const options = { env: { PIP_RESUME_RETRIES: "20", ...env, PIP_ROOT_USER_ACTION: "ignore" } };
  // Nothing here runs torch's Python, so its modules are not compiled.
  const install = [...first, "install", "--disable-pip-version-check", "--no-warn-script-location", "--no-compile"];
  // An existing installation is broken, but pip would keep it without --force-reinstall.
  if (source === "venv") return stream(program, [...install, "--force-reinstall", ...packages], options);
  // pip --target fills a folder step by step, so rename it only when it is complete.
  const [partial, target] = [join(home, ".torch.partial"), join(home, ".torch")];
  rmSync(partial, { recursive: true, force: true });
  if (!stream(program, [...install, "--target", partial, ...packages], options)) return false;
  rmSync(target, { recursive: true, force: true });
  renameSync(partial, target);
  return true;
}
