import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { headerOf, type JournalHeader, readEntries } from "../attacks/journal.js";
import { UserError } from "../errors.js";
import { exists, fileError } from "../files.js";

/** An attack's journal as it lies in a folder. */
export interface FoundJournal {
  readonly attack: string;
  readonly path: string;
  readonly header: JournalHeader;
}

/** The journals that lie in a folder, by their names; other files are passed over. */
export async function journalsIn(folder: string): Promise<FoundJournal[]> {
  if (!(await exists(folder))) return [];
  const names = (await entriesOf(folder)).map(({ name }) => name).filter((name) => name.endsWith(".jsonl"));
  const found: FoundJournal[] = [];
  for (const name of names.sort()) {
    const path = join(folder, name);
    const header = await headerAt(path);
    if (header) found.push({ attack: basename(name, ".jsonl"), path, header });
  }
  return found;
}

/** Whether every example of a journal is done. */
export async function isFinished({ path, header }: FoundJournal): Promise<boolean> {
  let results = -1;
  for await (const { value } of readEntries(path)) if (value !== undefined) results++;
  return results === header.examples;
}

async function headerAt(path: string): Promise<JournalHeader | null> {
  try {
    for await (const entry of readEntries(path)) return headerOf(entry, path);
    return null;
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

export async function entriesOf(folder: string) {
  return readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw fileError(error, folder, "read the folder");
  });
}
