// Runs other programs during setup, synchronously.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Setup cannot continue. The message says what to do and is printed without a stack trace. */
export class SetupError extends Error {
  /** @override */
  name = "SetupError";
}

/** @typedef {Record<string, string | undefined>} Environment */

/** Returns the message of a thrown value. @param {unknown} error */
export function getErrorMessage(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Runs a program and captures its output.
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: Environment, cwd?: string, timeout?: number }} [options]
 * @returns {{ ok: boolean, output: string, reason: string }} output: stdout; reason: why it failed
 */
export function capture(command, args, options = {}) {
  const result = spawnSync(command, args, { ...options, encoding: "utf8", maxBuffer: 1 << 26 });
  const lines = (result.stderr ?? "").trim().split("\n");
  const reason = result.error?.message ?? (result.signal ? `it was killed by ${result.signal}` : (lines.at(-1) ?? ""));
  return {
    ok: result.status === 0,
    output: (result.stdout ?? "").trim(),
    reason: reason || `exit code ${result.status}`,
  };
}

/**
 * Runs a program and shows its output on stderr, because stdout is for the result of setup.
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: Environment, cwd?: string }} [options]
 * @returns {boolean} whether it succeeded
 */
export function stream(command, args, options = {}) {
  return spawnSync(command, args, { ...options, stdio: ["inherit", 2, 2] }).status === 0;
}

/**
 * Finds a program on PATH.
 * @param {string} name
 * @param {Environment} env
 */
export function findOnPath(name, env) {
  for (const folder of (env.PATH ?? "").split(delimiter)) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      if (folder && statSync(path).isFile()) return path;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}
