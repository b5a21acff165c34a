import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists } from "../files.js";

/** Where to look for a built-in dataset, and what to tell users who do not have it. */
interface DatasetLocation {
  readonly name: string;
  /** Paths from a data folder to the folder of the dataset, the most likely one first. */
  readonly folders: readonly string[];
  /** Any of these files identifies the folder of the dataset. */
  readonly markerFiles: readonly string[];
  /** The expected files and their source. */
  readonly instructions: string;
}

/** Lists the folders that are searched if `--data` is not given: `TEMPER_DATA`, then `./data`. */
export function getDataRoots(): string[] {
  return [process.env.TEMPER_DATA || [], "data"].flat();
}

/**
 * Finds the folder of a built-in dataset: in the given folder or the folder itself, else in one of
 * the data roots.
 */
export async function findDatasetFolder(location: DatasetLocation, data: string | undefined): Promise<string> {
  const { name, folders, markerFiles, instructions } = location;
  if (data !== undefined && !(await exists(data)))
    throw new UserError(`${name}: ${data} does not exist. ${instructions}`);
  const roots = data === undefined ? getDataRoots() : [data];
  const candidates = roots.flatMap((root) => folders.map((folder) => join(root, folder)));
  for (const candidate of data === undefined ? candidates : [data, ...candidates]) {
    for (const file of markerFiles) if (await exists(join(candidate, file))) return candidate;
  }
  throw new UserError(
    `${name}: no ${markerFiles.join(" or ")} found in ${roots.join(", ")}. ${instructions} ` +
      "Pass its folder with --data, or set TEMPER_DATA.",
  );
}
