import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { type JournalHeader, parseHeader, readJournalEntries } from "../attacks/journal.js";
import { UserError } from "../errors.js";
import { createFileError, exists } from "../files.js";

/** An attack's journal as it lies in a folder. */
export interface JournalFile {
  readonly attack: string;
  readonly path: string;
  readonly header: JournalHeader;
}

/** The journals that lie in a folder, by their names; other files are passed over. */
export async function findJournals(folder: string): Promise<JournalFile[]> {
  if (!(await exists(folder))) return [];
  const names = (await listFolder(folder)).map(({ name }) => name).filter((name) => name.endsWith(".jsonl"));
  const found: JournalFile[] = [];
  for (const name of names.sort()) {
    const path = join(folder, name);
    const header = await tryReadHeader(path);
    if (header) found.push({ attack: basename(name, ".jsonl"), path, header });
  }
  return found;
}

/** Whether every example of a journal is done. */
export async function isJournalFinished({ path, header }: JournalFile): Promise<boolean> {
  let results = -1;
  for await (const { value } of readJournalEntries(path)) if (value !== undefined) results++;
  return results === header.examples;
}

async function tryReadHeader(path: string): Promise<JournalHeader | null> {
  try {
    for await (const entry of readJournalEntries(path)) return parseHeader(entry, path);
    return null;
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

export async function listFolder(folder: string) {
  return readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    throw createFileError(error, folder, "read the folder");
  });
}
