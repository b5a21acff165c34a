// What must not be found after a kill: half-written files, and ends that a user could not act on.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { openSafetensors } from "../../dist/models/checkpoint/safetensors.js";

/** @typedef {{ code: number | null, signal: string | null, stderr: string }} Ended */

/** Lists the files of a folder that are incomplete, abandoned or not what their name says. */
export async function findBrokenFiles(/** @type {string} */ out) {
  /** @type {string[]} */
  const broken = [];
  for (const name of readdirSync(out, { recursive: true, encoding: "utf8" })) {
    const path = join(out, name);
    if (!statSync(path).isFile()) continue;
    if (/(^|\/)\..*\.tmp$|\.writing-|damaged-/.test(name)) broken.push(`${name} is left over`);
    try {
      if (name.endsWith(".json")) JSON.parse(readFileSync(path, "utf8"));
      if (name.endsWith(".safetensors")) await (await openSafetensors(path)).close();
      if (name.endsWith(".jsonl"))
        for (const line of readFileSync(path, "utf8").trimEnd().split("\n")) JSON.parse(line);
      if (name.endsWith(".jsonl") && !readFileSync(path, "utf8").endsWith("\n")) broken.push(`${name} is incomplete`);
    } catch (error) {
      broken.push(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return broken;
}

/**
 * An error that a user could not act on, or an end that no fault explains.
 * @param {Ended} ended
 * @param {boolean} isToldToStop whether the fault was a signal that a command answers
 */
export function findBadEnd({ code, signal, stderr }, isToldToStop) {
  if (/This is a bug|^\s+at .*:\d+:\d+/m.test(stderr)) return `raw error: ${stderr.slice(0, 600)}`;
  const end = `${signal ?? `exit code ${code}`}: ${stderr.slice(0, 300)}`;
  // Before Node.js has loaded the program, a signal ends the process without a word.
  if (isToldToStop)
    return code === 0 || (code === 130 ? /Stopp/.test(stderr) : signal !== null && stderr === "") ? null : end;
  const isExplained = [null, "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"].includes(signal);
  return isExplained && [0, 1, 2, 129, 130, 137, 143, null].includes(code) ? null : end;
}
