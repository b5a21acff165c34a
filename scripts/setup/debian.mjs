// Debian's own libtorch, the last resort: older (1.13) and about half as fast, and the only way that needs root.
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { findLibtorch } from "./find.mjs";
import { isAtLeast } from "./inspect.mjs";
import { capture, onPath, stream } from "./process.mjs";

/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */

/** What to install: the reference BLAS that libtorch-dev would bring along is 30 times slower than OpenBLAS. */
export const DEBIAN_PACKAGES = ["libtorch-dev", "libopenblas0-pthread"];

/**
 * @param {import("./install.mjs").InstallOptions} options
 * @param {import("./install.mjs").Attempt[]} attempts
 * @returns {{ libtorch: Libtorch | undefined, attempts: import("./install.mjs").Attempt[] }}
 */
export function installDebian(options, attempts) {
  const { env, log } = options;
  const what = `Debian's ${DEBIAN_PACKAGES.join(" and ")}`;
  const fail = (/** @type {string} */ reason) => ({ libtorch: undefined, attempts: [...attempts, { what, reason }] });
  if (!onPath("apt-get", env)) return fail("there is no apt-get here");
  const root = asRoot(env);
  if (!root) return fail("apt-get needs root, and there is no sudo that could ask for it");
  log(
    `Installing ${what} with apt-get, as root (about 130 MB to download, 560 MB on disk): the libtorch of Debian itself`,
  );
  const [program = "", ...first] = [...root, "apt-get"];
  const quiet = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" } };
  const install = () =>
    stream(program, [...first, "install", "-y", "--no-install-recommends", ...DEBIAN_PACKAGES], quiet);
  // A fresh machine has no package lists yet.
  if (!install() && !(stream(program, [...first, "update"], quiet) && install()))
    return fail("apt-get failed; its lines are above");
  const { libtorch, rejected } = findLibtorch({ ...options, only: ["system"] });
  return libtorch ? { libtorch, attempts } : fail(rejected.at(-1)?.reason ?? "it left no libtorch behind");
}

/**
 * What to write before a command to run it as root: nothing, sudo, or undefined where root is out of reach.
 * @param {import("./process.mjs").Environment} env
 */
function asRoot(env) {
  if (process.getuid?.() === 0) return [];
  if (!onPath("sudo", env)) return undefined;
  if (capture("sudo", ["-n", "true"], { env }).ok) return ["sudo", "-n"];
  return process.stdin.isTTY ? ["sudo"] : undefined;
}

/**
 * What makes this libtorch slow, and the remedy.
 * @param {Libtorch} libtorch
 * @returns {string[]}
 */
export function slowness(libtorch) {
  const advice = isAtLeast(libtorch.version, "2")
    ? []
    : [
        `libtorch 2 trains 1.8 times as fast as ${libtorch.version}: python3 -m venv .venv && .venv/bin/pip install torch`,
      ];
  const blas = join(libtorch.libraryFolder, "libblas.so.3");
  if (libtorch.source === "system" && existsSync(blas) && realpathSync(blas).includes("/blas/")) {
    advice.push(`the reference BLAS is 30 times slower than OpenBLAS: apt-get install ${DEBIAN_PACKAGES[1]}`);
  }
  return advice;
}
