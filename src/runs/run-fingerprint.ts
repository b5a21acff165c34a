import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { findLivingOwner } from "../base/lock.js";
import { getRunPath, type RunFile } from "./run-files.js";

/** The files that change while a run trains. Attacks and analyses write into folders. */
const watchedFiles: readonly RunFile[] = ["config", "status", "events", "results", "advglue"];
const watchedFolders: readonly RunFile[] = ["attacks", "analysis"];

/**
 * A text that changes if a file of a run changes, or if its process ends. It costs a few calls of
 * the file system and reads no file, so that many runs can be watched.
 */
export async function readRunFingerprint(folder: string): Promise<string> {
  const paths = watchedFiles.map((file) => getRunPath(folder, file));
  for (const file of watchedFolders) paths.push(...(await listFiles(getRunPath(folder, file))));
  const stamps = await Promise.all(paths.map(readStamp));
  return `${stamps.join(" ")} ${findLivingOwner(getRunPath(folder, "lock"))?.pid ?? ""}`;
}

async function listFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.sort().map((name) => join(folder, name));
}

async function readStamp(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found ? `${found.size}@${found.mtimeMs}` : "-";
}
