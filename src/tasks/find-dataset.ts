import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { exists } from "../base/files.js";
import { type HubDataset, type HubLocation, openHubDataset } from "./hub-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";

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

/** A dataset in a folder, or on the Hugging Face Hub. */
export type FoundDataset =
  | { readonly folder: string; readonly hub: null }
  | { readonly folder: null; readonly hub: HubDataset };

/**
 * Finds a built-in dataset: in the given folder, else in one of the data roots, else on the Hugging
 * Face Hub. A revision exists only there.
 */
export async function findDataset(
  location: DatasetLocation & { readonly hub: HubLocation },
  data: string | undefined,
  options: HubReadOptions,
): Promise<FoundDataset> {
  const { name, hub, instructions } = location;
  const { revision } = options;
  if (revision !== undefined && data !== undefined)
    throw new UserError(
      `${name}@${revision}: a revision is on the Hugging Face Hub, but --data is ${data}. Leave one of them out.`,
    );
  const folder = revision === undefined ? await searchFolders(location, data) : null;
  if (folder !== null) return { folder, hub: null };
  if (data !== undefined) throw createNotFoundError(location, data);
  try {
    return { folder: null, hub: await openHubDataset(name, hub, options) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const otherwise = `Or get the files yourself: ${instructions} ${passFolder}`;
    throw new UserError(`${name}: ${error.message}\n${otherwise}`, { cause: error });
  }
}

/**
 * Finds the folder of a built-in dataset that is not on the hub: in the given folder or the folder
 * itself, else in one of the data roots.
 */
export async function findDatasetFolder(location: DatasetLocation, data: string | undefined): Promise<string> {
  const folder = await searchFolders(location, data);
  if (folder === null) throw createNotFoundError(location, data);
  return folder;
}

async function searchFolders(location: DatasetLocation, data: string | undefined): Promise<string | null> {
  const { name, folders, markerFiles, instructions } = location;
  if (data !== undefined && !(await exists(data)))
    throw new UserError(`${name}: ${data} does not exist. ${instructions}`);
  const roots = data === undefined ? getDataRoots() : [data];
  const candidates = roots.flatMap((root) => folders.map((folder) => join(root, folder)));
  for (const candidate of data === undefined ? candidates : [data, ...candidates]) {
    for (const file of markerFiles) if (await exists(join(candidate, file))) return candidate;
  }
  return null;
}

const passFolder = "Pass its folder with --data, or set TEMPER_DATA.";

function createNotFoundError(
  { name, markerFiles, instructions }: DatasetLocation,
  data: string | undefined,
): UserError {
  const roots = data === undefined ? getDataRoots() : [data];
  return new UserError(
    `${name}: no ${markerFiles.join(" or ")} found in ${roots.join(", ")}. ${instructions} ${passFolder}`,
  );
}
