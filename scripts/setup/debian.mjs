// Debian's libtorch is the last resort: it is older (1.13), about half as fast, and needs root.
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { findLibtorch } from "./find.mjs";
import { isAtLeast } from "./inspect.mjs";
import { capture, findOnPath, stream } from "./process.mjs";

/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */

/** The packages to install. The default BLAS of libtorch-dev is 30 times slower than OpenBLAS. */
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
  if (!findOnPath("apt-get", env)) return fail("apt-get is not available");
  const root = getRootPrefix(env);
  if (!root) return fail("apt-get needs root, and sudo is not available");
  const work = `install ${what} with apt-get, as root (130 MB download, 560 MB on disk)`;
  // Somebody at a terminal decides. An unattended setup must not wait.
  if (options.ask && !options.ask(`Setup would ${work}. Continue?`)) return fail("you declined it");
  if (!options.ask) log(`Setup will ${work}.`);
  const [program = "", ...first] = [...root, "apt-get"];
  const quiet = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" } };
  const install = () =>
    stream(program, [...first, "install", "-y", "--no-install-recommends", ...DEBIAN_PACKAGES], quiet);
  // A new system has no package lists yet.
  if (!install() && !(stream(program, [...first, "update"], quiet) && install()))
    return fail("apt-get failed; see its messages above");
  const { libtorch, rejected } = findLibtorch({ ...options, only: ["system"] });
  return libtorch ? { libtorch, attempts } : fail(rejected.at(-1)?.reason ?? "it installed no libtorch");
}

/**
 * Returns the prefix of a command that runs as root: nothing or sudo, or undefined if root is not
 * available.
 * @param {import("./process.mjs").Environment} env
 */
function getRootPrefix(env) {
  if (process.getuid?.() === 0) return [];
  if (!findOnPath("sudo", env)) return undefined;
  if (capture("sudo", ["-n", "true"], { env }).ok) return ["sudo", "-n"];
  return process.stdin.isTTY ? ["sudo"] : undefined;
}

/**
 * Explains what makes this libtorch slow, and the remedy.
 * @param {Libtorch} libtorch
 * @returns {string[]}
 */
export function explainSlowness(libtorch) {
  const advice = isAtLeast(libtorch.version, "2")
    ? []
    : [`libtorch 2 is 1.8 times as fast as ${libtorch.version}: python3 -m venv .venv && .venv/bin/pip install torch`];
  const blas = join(libtorch.libraryFolder, "libblas.so.3");
  if (libtorch.source === "system" && existsSync(blas) && realpathSync(blas).includes("/blas/")) {
    advice.push(`the reference BLAS is 30 times slower than OpenBLAS: apt-get install ${DEBIAN_PACKAGES[1]}`);
  }
  return advice;
}
