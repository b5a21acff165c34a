import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { sha256File } from "../files.js";
import { findWeightsFile } from "./checkpoint.js";

/** SHA-256 over a model's weights and config: two models with the same hash compute the same. */
export async function hashModelFolder(folder: string): Promise<string> {
  const names = readdirSync(folder).filter((name) => name.endsWith(".safetensors") || name === "config.json");
  const weights = findWeightsFile(names)?.file;
  const used = names
    .filter(
      (name) =>
        name === "config.json" || name === "head.safetensors" || name === weights || /-of-\d+\.safetensors$/.test(name),
    )
    .sort();
  const hash = createHash("sha256");
  for (const name of used) hash.update(`${name} ${await sha256File(join(folder, name))}\n`);
  return hash.digest("hex");
}
