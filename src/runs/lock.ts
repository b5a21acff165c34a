import { closeSync, openSync, readFileSync, rmSync, statSync, utimesSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { z } from "zod";
import { codeOf, fileError } from "../files.js";

const ownerSchema = z.object({ pid: z.number().int().positive(), host: z.string(), started: z.string().nullable() });
type Owner = z.output<typeof ownerSchema>;

/** How often a holder shows that it lives, and how long after that others believe it: only asked across machines. */
const beatMilliseconds = 15_000;
const deadMilliseconds = 120_000;

/** Takes a lock file, or throws what `refuse` makes of its living owner. The lock of a dead process is no lock. */
export function acquireLock(path: string, refuse: (owner: string) => Error): () => void {
  const me: Owner = { pid: process.pid, host: hostname(), started: startOf(process.pid) };
  for (;;) {
    try {
      const file = openSync(path, "wx");
      writeSync(file, JSON.stringify(me));
      closeSync(file);
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw fileError(error, path, "write the run folder");
    }
    const owner = livingOwner(path);
    if (owner) throw refuse(`process ${owner.pid}${owner.host === me.host ? "" : ` on ${owner.host}`}`);
    rmSync(path, { force: true });
  }
  const beat = setInterval(() => utimesSync(path, new Date(), new Date()), beatMilliseconds).unref();
  return () => {
    clearInterval(beat);
    rmSync(path, { force: true });
  };
}

/** Who holds a lock, if it still runs. */
export function livingOwner(path: string): Owner | null {
  try {
    const owner = ownerSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    if (owner.host !== hostname()) return Date.now() - statSync(path).mtimeMs < deadMilliseconds ? owner : null;
    // A number alone may by now belong to another process.
    return isAlive(owner.pid) && startOf(owner.pid) === owner.started ? owner : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** When a process was started, as the system counts it; null where it does not say. */
function startOf(pid: number): string | null {
  try {
    // The name of the program stands in parentheses and may hold spaces: what counts comes after them.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\)\s/s, "")
      .split(" ");
    return fields[19] ?? null;
  } catch {
    return null;
  }
}
