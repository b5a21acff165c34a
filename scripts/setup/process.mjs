// Running other programs during set-up. Everything is synchronous: set-up does one thing after the other.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Set-up cannot go on; the message says what to do. Printed without a stack trace. */
export class SetupError extends Error {
  /** @override */
  name = "SetupError";
}

/** @typedef {Record<string, string | undefined>} Environment */

/** The message of anything that was thrown. @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Runs a program and keeps what it prints.
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: Environment, cwd?: string, timeout?: number }} [options]
 * @returns {{ ok: boolean, output: string, reason: string }} output: its stdout; reason: why it failed
 */
export function capture(command, args, options = {}) {
  const result = spawnSync(command, args, { ...options, encoding: "utf8", maxBuffer: 1 << 26 });
  const lines = (result.stderr ?? "").trim().split("\n");
  const reason = result.error?.message ?? (result.signal ? `it was ended by ${result.signal}` : (lines.at(-1) ?? ""));
  return {
    ok: result.status === 0,
    output: (result.stdout ?? "").trim(),
    reason: reason || `exit code ${result.status}`,
  };
}

/**
 * Runs a program whose output the user sees, on stderr: stdout belongs to set-up's own result.
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: Environment, cwd?: string }} [options]
 * @returns {boolean} whether it succeeded
 */
export function stream(command, args, options = {}) {
  return spawnSync(command, args, { ...options, stdio: ["inherit", 2, 2] }).status === 0;
}

/**
 * Where a program lies on PATH, if it does.
 * @param {string} name
 * @param {Environment} env
 */
export function onPath(name, env) {
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
