import { UserError } from "../base/errors.js";
import { findJournals, getJournalPath } from "./attack-folder.js";
import { RunFolder } from "./run-folder.js";

/** The journals that a path means: those of a run, or the journal itself. */
export async function expandJournals(path: string): Promise<string[]> {
  const run = await RunFolder.containing(path);
  if (!run) return [path];
  const folder = run.path("attacks");
  const names = await findJournals(folder);
  if (names.length === 0)
    throw new UserError(`${path}: this run was not attacked yet. Run temper attack ${path} first.`);
  return names.map((name) => getJournalPath(folder, name));
}
