import { stat } from "node:fs/promises";
import { UserError } from "../base/errors.js";
import { findJournals, getJournalPath } from "./attack-folder.js";
import { findRunFolders } from "./run-files.js";
import { RunFolder } from "./run-folder.js";

/** The runs that a path means: one run, or all in a folder. None if it is neither. */
export async function findRunsAt(path: string): Promise<RunFolder[]> {
  const run = await RunFolder.containing(path);
  if (run) return [run];
  const isFolder = (await stat(path).catch(() => null))?.isDirectory() ?? false;
  return isFolder ? Promise.all((await findRunFolders(path)).map(RunFolder.open)) : [];
}

export async function expandJournals(path: string): Promise<string[]> {
  const runs = await findRunsAt(path);
  // A folder of journals alone is no run: its reader says what it expected.
  if (runs.length === 0) return [path];
  const folders = runs.map((each) => each.path("attacks"));
  const journals = await Promise.all(
    folders.map(async (folder) => (await findJournals(folder)).map((name) => getJournalPath(folder, name))),
  );
  const found = journals.flat();
  if (found.length > 0) return found;
  const subject = runs.length === 1 ? "this run was" : "none of its runs was";
  throw new UserError(`${path}: ${subject} attacked yet. Run temper attack ${runs[0]!.folder} first.`);
}
