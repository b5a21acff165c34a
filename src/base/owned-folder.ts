import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "./errors.js";
import { createFolder, exists, readJson, writeFileAtomic } from "./files.js";

const markerFile = ".temper.json";
const markerSchema = z.object({ format: z.literal(1), kind: z.string() });

/** Returns true if a folder has the marker of this kind. A link, a pipe or a damaged file is no marker. */
async function hasMarker(folder: string, kind: string): Promise<boolean> {
  const path = join(folder, markerFile);
  if (!(await lstat(path).catch(() => null))?.isFile()) return false;
  const marker = markerSchema.safeParse(await readJson(path, "the marker of the folder").catch(() => null));
  return marker.success && marker.data.kind === kind;
}

/**
 * Creates a folder of a command and marks it. Without the marker, the folder must not contain any
 * of the names that the command replaces: somebody else made those files. Other files stay.
 */
export async function claimFolder(folder: string, kind: string, names: readonly string[]): Promise<void> {
  createFolder(folder, `write the results of the ${kind}`);
  if (await hasMarker(folder, kind)) return;
  for (const name of [...names, markerFile])
    if ((await lstat(join(folder, name)).catch(() => null)) !== null)
      throw new UserError(
        `${join(folder, name)} already exists, and no ${kind} wrote it. Choose a different --out, or move it away.`,
      );
  await writeFileAtomic(join(folder, markerFile), `${JSON.stringify({ format: 1, kind })}\n`);
}

/**
 * Creates a folder of a command, or removes what the command wrote into it before. A folder without
 * the marker, and one with content that `isOwn` does not recognize, is rejected and stays.
 */
export async function clearFolder(folder: string, kind: string, isOwn: (name: string) => boolean): Promise<void> {
  const found = await lstat(folder).catch(() => null);
  if (found !== null && !found.isDirectory())
    throw new UserError(`${folder}: expected a folder, found a file or a link. Choose a different --out.`);
  const names = (found === null ? [] : await readdir(folder)).filter((name) => name !== markerFile);
  const isMarked = (await exists(folder)) && (await hasMarker(folder, kind));
  const foreign = names.find((name) => !isMarked || !isOwn(name));
  if (foreign !== undefined)
    throw new UserError(
      `${join(folder, foreign)} is in the way, and no ${kind} wrote it. Choose a different --out, or move it away.`,
    );
  for (const name of names) await rm(join(folder, name), { recursive: true, force: true });
  await claimFolder(folder, kind, []);
}
