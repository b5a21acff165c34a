import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readYaml } from "../base/yaml.js";
import { isConfigObject } from "./config-overlay.js";

const folder = fileURLToPath(new URL("../../experiments", import.meta.url));

/** A sweep that comes with the package. */
export interface ShippedSweep {
  readonly name: string;
  readonly title: string;
  readonly profiles: readonly string[];
}

/** Lists the sweeps that come with the package. */
export async function listShippedSweeps(): Promise<ShippedSweep[]> {
  const sweeps: ShippedSweep[] = [];
  for (const file of (await readdir(folder)).filter((name) => name.endsWith(".yaml")).sort()) {
    const { value } = await readYaml(join(folder, file));
    // The folder also has the published results.
    if (!isConfigObject(value) || !("rows" in value)) continue;
    const { title, profiles } = value;
    sweeps.push({
      name: basename(file, ".yaml"),
      title: typeof title === "string" ? title : "",
      profiles: isConfigObject(profiles) ? Object.keys(profiles) : [],
    });
  }
  return sweeps;
}

/** The path of a sweep: as given, or that of a shipped one by its name. */
export function findSweepFile(file: string): string {
  const shipped = join(folder, `${file}.yaml`);
  return !existsSync(file) && basename(file) === file && existsSync(shipped) ? shipped : file;
}
