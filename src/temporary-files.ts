import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "./lock.js";

/**
 * Removes the temporary files of `replaceFile` that a killed process left in a folder. Only files
 * for these names count, because other programs leave files there, too.
 */
export function removeAbandonedFiles(folder: string, names: readonly string[]): void {
  for (const found of readdirSync(folder)) {
    const [, name, pid] = /^\.(.+)\.(\d+)-[0-9a-f]{8}\.tmp$/.exec(found) ?? [];
    if (name !== undefined && names.includes(name) && !isAlive(Number(pid)))
      rmSync(join(folder, found), { force: true });
  }
}
