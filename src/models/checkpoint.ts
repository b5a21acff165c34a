import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, readJson } from "../files.js";
import { validate } from "../validate.js";
import { explainPickleRejection, isPickleFile } from "./pickle.js";
import { openSafetensors, type SafetensorsEntry, type SafetensorsFile } from "./safetensors.js";
import { quoteName } from "./safetensors-header.js";

const singleName = "model.safetensors";
const indexName = "model.safetensors.index.json";

/** Which of a folder's files hold the weights; null where none does. */
export function findWeightsFile(names: readonly string[]): { kind: "single" | "sharded"; file: string } | null {
  if (names.includes(singleName)) return { kind: "single", file: singleName };
  if (names.includes(indexName)) return { kind: "sharded", file: indexName };
  // Some publish under a name of their own (model.fp16.safetensors): good where there is no choice.
  const others = names.filter((name) => /^model.*\.safetensors$/.test(name));
  return others.length === 1 ? { kind: "single", file: others[0]! } : null;
}

/** Opens a model folder's weights: one file, or the shards of an index, behind one interface. */
export async function openCheckpoint(folder: string): Promise<SafetensorsFile> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw createFileError(error, folder, "open the model folder");
  });
  const weights = findWeightsFile(names);
  if (weights === null) throw new UserError(describeMissingWeights(folder, names));
  const path = join(folder, weights.file);
  return weights.kind === "single" ? openSafetensors(path) : openShards(folder, path);
}

/** Why a folder or repository with these files has no weights that we read. */
export function describeMissingWeights(model: string, names: readonly string[]): string {
  const pickles = names.filter(isPickleFile);
  if (pickles.length > 0) return explainPickleRejection(pickles, model);
  const found = names.length > 0 ? names.slice(0, 8).join(", ") : "nothing";
  return `${model}: expected ${singleName} or ${indexName}, found ${found}; give a model's folder, or get the model again`;
}

const indexSchema = z.object({ weight_map: z.record(z.string(), z.string()) });

async function openShards(folder: string, indexPath: string): Promise<SafetensorsFile> {
  const { weight_map: weightMap } = validate(
    indexSchema,
    await readJson(indexPath, "the index of the model's shards"),
    indexPath,
  );
  const fileNames = [...new Set(Object.values(weightMap))].sort();
  if (fileNames.length === 0) throw new UserError(`${indexPath}: weight_map names no tensor; get the file again`);
  for (const name of fileNames) checkShardName(name, indexPath);
  const shards = new Map<string, SafetensorsFile>();
  const closeAll = async (): Promise<void> =>
    void (await Promise.all([...shards.values()].map((shard) => shard.close())));
  try {
    for (const name of fileNames) shards.set(name, await openSafetensors(join(folder, name)));
    const entries = new Map<string, SafetensorsEntry>();
    const owners = new Map<string, SafetensorsFile>();
    for (const [tensor, name] of Object.entries(weightMap)) {
      const shard = shards.get(name)!;
      const entry = shard.entries.get(tensor);
      if (entry === undefined)
        throw new UserError(
          `${indexPath}: tensor ${quoteName(tensor)} should be in ${name}, which lacks it; get both again`,
        );
      entries.set(tensor, entry);
      owners.set(tensor, shard);
    }
    const owner = (tensor: string): SafetensorsFile => {
      const shard = owners.get(tensor);
      if (shard === undefined)
        throw new UserError(`${indexPath}: there is no tensor ${quoteName(tensor)} among its ${entries.size}`);
      return shard;
    };
    return {
      path: indexPath,
      entries,
      metadata: shards.get(fileNames[0]!)!.metadata,
      read: async (tensor, into) => owner(tensor).read(tensor, into),
      readSync: (tensor, into) => owner(tensor).readSync(tensor, into),
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** A shard is a plain file beside its index: an index from elsewhere must not make us read other places. */
function checkShardName(name: string, indexPath: string): void {
  if (/^[^/\\:\0]+\.safetensors$/.test(name)) return;
  throw new UserError(
    `${indexPath}: weight_map names ${quoteName(name)}; expected the plain name of a .safetensors file in the same folder`,
  );
}
