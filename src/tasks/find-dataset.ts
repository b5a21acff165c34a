import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { exists } from "../base/files.js";

export interface DatasetLocation {
  readonly name: string;
  /** Paths from a data folder to the folder of the dataset, the most likely one first. */
  readonly folders: readonly string[];
  readonly markerFiles: readonly string[];
  readonly instructions: string;
}

export const passFolder = "Pass its folder with --data, or set TEMPER_DATA.";

/** Lists the folders that are searched if `--data` is not given: `TEMPER_DATA`, then `./data`. */
export function getDataRoots(): string[] {
  return [process.env.TEMPER_DATA || [], "data"].flat();
}

/** Finds the folder of a dataset: `data` or a folder inside it, else one in the data roots. */
export async function findDatasetFolder(location: DatasetLocation, data: string | undefined): Promise<string | null> {
  const { name, folders, markerFiles, instructions } = location;
  if (data !== undefined && !(await exists(data)))
    throw new UserError(`${name}: ${data} does not exist. ${instructions}`);
  const inside = listRoots(data).flatMap((root) => folders.map((folder) => join(root, folder)));
  for (const candidate of data === undefined ? inside : [data, ...inside])
    for (const file of markerFiles) if (await exists(join(candidate, file))) return candidate;
  return null;
}

export function createNotFoundError(location: DatasetLocation, data: string | undefined): UserError {
  const { name, markerFiles, instructions } = location;
  const roots = listRoots(data).join(", ");
  return new UserError(`${name}: no ${markerFiles.join(" or ")} found in ${roots}. ${instructions} ${passFolder}`);
}

const listRoots = (data: string | undefined): string[] => (data === undefined ? getDataRoots() : [data]);
