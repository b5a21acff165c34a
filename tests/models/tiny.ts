import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { forward, type Model, tokenizeAll, toModelInput } from "../../src/models/index.js";
import { evalMode } from "../../src/nn/index.js";
import { fromBytes, noGrad, scope } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";

/** The logits of texts or pairs as one batch: [text * label]. */
export function computeLogits(model: Model, texts: readonly (readonly string[])[]): Float32Array {
  const padded = padBatch(tokenizeAll(model, texts), model.tokenizer.special.padId);
  return scope(() => {
    const input = toModelInput(padded, model.architecture.config, "cpu");
    return noGrad(() => forward(model.architecture, model.weights, input, evalMode)).logits.toFloat32Array();
  });
}

/** Two random models with two layers. */
export const tinyModels = ["bert-tiny", "roberta-random"] as const;
export type TinyModel = (typeof tinyModels)[number];

export const getFixtureFolder = (name: TinyModel): string =>
  fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));

export interface Rewrite {
  /** Returns another name, or null to omit the tensor. */
  rename?: (name: string) => string | null;
  type?: "F16" | "BF16" | "F32";
  reshape?: (name: string, shape: readonly number[]) => readonly number[];
  /** Changes to config.json. undefined removes a key. */
  config?: Record<string, unknown>;
}

/** Copies a tiny model with a changed checkpoint or config. */
export async function rewriteModel(name: TinyModel, folder: string, rewrite: Rewrite): Promise<string> {
  await mkdir(folder, { recursive: true });
  await copyFile(join(getFixtureFolder(name), "tokenizer.json"), join(folder, "tokenizer.json"));
  const config = JSON.parse(await readFile(join(getFixtureFolder(name), "config.json"), "utf8")) as Record<
    string,
    unknown
  >;
  await writeFile(join(folder, "config.json"), JSON.stringify({ ...config, ...rewrite.config }));
  const file = await openSafetensors(join(getFixtureFolder(name), "model.safetensors"));
  const dtypes = { F16: "float16", BF16: "bfloat16", F32: "float32" } as const;
  const dtype = rewrite.type ?? "F32";
  const tensors = [...file.entries].flatMap(([stored, entry]) => {
    const renamed = rewrite.rename ? rewrite.rename(stored) : stored;
    if (renamed === null) return [];
    const bytes = (): Uint8Array =>
      scope(() => fromBytes(file.readSync(stored), entry.shape, "float32", dtypes[dtype]).toBytes());
    return [{ name: renamed, dtype, shape: rewrite.reshape?.(stored, entry.shape) ?? entry.shape, bytes }];
  });
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  await file.close();
  return folder;
}
