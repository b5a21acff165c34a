import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { createFileError, readJson, sha256File } from "../../base/files.js";
import { validate } from "../../base/validate.js";
import {
  explainPickleRejection,
  isPickleFile,
  openSafetensors,
  quoteName,
  type SafetensorsEntry,
  type SafetensorsFile,
} from "./safetensors.js";

const singleName = "model.safetensors";
const indexName = "model.safetensors.index.json";

export function findWeightsFile(names: readonly string[]): { kind: "single" | "sharded"; file: string } | null {
  if (names.includes(singleName)) return { kind: "single", file: singleName };
  if (names.includes(indexName)) return { kind: "sharded", file: indexName };
  // Some models use another name, such as model.fp16.safetensors. Accept it if it is the only one.
  const others = names.filter((name) => /^model.*\.safetensors$/.test(name));
  return others.length === 1 ? { kind: "single", file: others[0]! } : null;
}

export async function openCheckpoint(folder: string): Promise<SafetensorsFile> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw createFileError(error, folder, "open the model folder");
  });
  const weights = findWeightsFile(names);
  if (weights === null) throw new UserError(describeMissingWeights(folder, names));
  const path = join(folder, weights.file);
  return weights.kind === "single" ? openSafetensors(path) : openShards(folder, path);
}

export function describeMissingWeights(model: string, names: readonly string[]): string {
  const pickles = names.filter(isPickleFile);
  if (pickles.length > 0) return explainPickleRejection(pickles, model);
  if (names.some((name) => name === "onnx" || name.endsWith(".onnx")))
    return (
      `${model}: expected ${singleName}, found an ONNX file. It can be evaluated, attacked and served, but this ` +
      "needs the weights. Pass the run or the model that was exported."
    );
  const found = names.length > 0 ? names.slice(0, 8).join(", ") : "nothing";
  return `${model}: expected ${singleName} or ${indexName}, found ${found}. Pass a model folder, or download it again.`;
}

const indexSchema = z.object({ weight_map: z.record(z.string(), z.string()) });

async function readWeightMap(indexPath: string): Promise<Record<string, string>> {
  const index = await readJson(indexPath, "the index of the model shards", { kind: "settings" });
  const { weight_map: weightMap } = validate(indexSchema, index, indexPath);
  for (const name of Object.values(weightMap)) checkShardName(name, indexPath);
  return weightMap;
}

async function openShards(folder: string, indexPath: string): Promise<SafetensorsFile> {
  const weightMap = await readWeightMap(indexPath);
  const fileNames = [...new Set(Object.values(weightMap))].sort();
  if (fileNames.length === 0)
    throw new UserError(`${indexPath}: weight_map contains no tensor. Download the file again.`);
  const shards = new Map<string, SafetensorsFile>();
  const closeAll = async (): Promise<void> =>
    void (await Promise.all([...shards.values()].map((shard) => shard.close())));
  try {
    for (const name of fileNames) shards.set(name, await openSafetensors(join(folder, name)));
    const entries = new Map<string, SafetensorsEntry>();
    for (const [tensor, name] of Object.entries(weightMap)) {
      const entry = shards.get(name)!.entries.get(tensor);
      if (entry === undefined)
        throw new UserError(`${indexPath}: ${name} lacks the tensor ${quoteName(tensor)}. Download both files again.`);
      entries.set(tensor, entry);
    }
    return {
      path: indexPath,
      entries,
      metadata: shards.get(fileNames[0]!)!.metadata,
      readSync(tensor) {
        if (!entries.has(tensor))
          throw new UserError(`${indexPath} has no tensor ${quoteName(tensor)} among its ${entries.size}`);
        return shards.get(weightMap[tensor]!)!.readSync(tensor);
      },
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Accepts only file names in the folder, because an untrusted index could name any path. */
function checkShardName(name: string, indexPath: string): void {
  if (/^[^/\\:\0]+\.safetensors$/.test(name)) return;
  throw new UserError(
    `${indexPath}: weight_map: expected a .safetensors file in the same folder, received ${quoteName(name)}`,
  );
}

/** SHA-256 over the weights and the config of a model. Equal hashes compute the same. */
export async function hashModelFolder(folder: string): Promise<string> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw createFileError(error, folder, "open the model folder");
  });
  const weights = findWeightsFile(names);
  const shards = weights?.kind === "sharded" ? Object.values(await readWeightMap(join(folder, weights.file))) : [];
  const used = new Set(["config.json", "head.safetensors", ...(weights ? [weights.file] : []), ...shards]);
  const hash = createHash("sha256");
  for (const name of names.filter((each) => used.has(each)).sort())
    hash.update(`${name} ${await sha256File(join(folder, name), { kind: "weights" })}\n`);
  return hash.digest("hex");
}
