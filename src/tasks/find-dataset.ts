import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists } from "../files.js";

/** Where a built-in data set may lie, and what to tell who does not have it. */
export interface DatasetLocation {
  readonly name: string;
  /** Paths from a data folder to the set's own folder, the likeliest first. */
  readonly folders: readonly string[];
  /** The set's folder is recognised by any of these in it. */
  readonly markerFiles: readonly string[];
  /** Where to get it and what it must look like. */
  readonly instructions: string;
}

/** The folders that are searched where no --data is given. */
export function getDataRoots(): string[] {
  const named = process.env.TEMPER_DATA;
  return [...(named ? [named] : []), "data", join("..", "shared", "data")];
}

/** The folder of a built-in set: inside the folder given, or that folder itself; else inside one of the usual places. */
export async function findDatasetFolder(whereabouts: DatasetLocation, given: string | undefined): Promise<string> {
  const { name, folders, markerFiles: signs, instructions: remedy } = whereabouts;
  if (given !== undefined && !(await exists(given))) throw new UserError(`${name}: there is no ${given}. ${remedy}`);
  const candidates =
    given === undefined
      ? getDataRoots().flatMap((root) => folders.map((folder) => join(root, folder)))
      : [given, ...folders.map((folder) => join(given, folder))];
  for (const candidate of candidates) {
    for (const sign of signs) if (await exists(join(candidate, sign))) return candidate;
  }
  const looked = given ?? getDataRoots().join(", ");
  throw new UserError(
    `${name}: found none of ${signs.join(", ")} under ${looked}. ${remedy} Name its folder with --data, or set TEMPER_DATA`,
  );
}
