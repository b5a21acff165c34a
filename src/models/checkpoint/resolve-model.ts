import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { readBackend } from "../../base/backend.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { exists } from "../../base/files.js";
import { findPackage } from "../../base/find-package.js";
import { downloadHubSnapshot, type HubFile, listHubFiles, openHubSnapshot } from "../../hub/hub-cache.js";
import { prefersOnnx } from "../../tensor/native.js";
import { sentencePieceFile } from "../../text/deberta-sentencepiece.js";
import { SUBWORD_TOKENIZER } from "../../text/tokenizer.js";
import { describeMissingWeights, findWeightsFile } from "./checkpoint.js";

export interface ModelFolder {
  readonly folder: string;
  /** The display name: the name of the folder, the package, or the Hugging Face model ID. */
  readonly name: string;
  readonly source: "folder" | "npm" | "hub";
  readonly onnxFile?: string;
}

/** The ONNX files of model folders, as Temper, Optimum and transformers.js write them, the first choice first. */
export const onnxNames = {
  fp32: ["onnx/model.onnx", "model.onnx"],
  int8: ["onnx/model_quantized.onnx", "model_quantized.onnx", "onnx/model_int8.onnx"],
} as const;

/** Finds the ONNX file among those of a folder. One with 8-bit weights is used if there is no other. */
export function findOnnxPath(paths: readonly string[]): { path: string; precision: "fp32" | "int8" } | null {
  for (const precision of ["fp32", "int8"] as const) {
    const path = onnxNames[precision].find((name) => paths.includes(name));
    if (path !== undefined) return { path, precision };
  }
  return null;
}

/** Finds a model: a folder, an ONNX file, npm:PACKAGE, or [hf:]name[@revision] on the hub. */
export async function resolveModel(
  reference: string,
  callbacks: Pick<Callbacks, "onEvent"> = {},
): Promise<ModelFolder> {
  if (reference.trim() === "")
    throw new UserError("expected a model: a folder, npm:PACKAGE or a Hugging Face model ID such as roberta-base");
  if (reference.startsWith("npm:")) return resolvePackage(reference.slice("npm:".length));
  if (reference.startsWith("hf:")) return resolveHubModel(reference.slice("hf:".length), callbacks);
  const kind = await getPathKind(reference);
  if (kind === "folder") return resolveFolder(reference);
  if (kind === "file" && reference.endsWith(".onnx")) return resolveOnnxFile(resolve(reference));
  if (kind === "file")
    throw new UserError(
      `${reference}: expected a model folder, found a file. Pass the folder that contains config.json.`,
    );
  if (await isPathLike(reference))
    throw new UserError(
      `${reference}: no such folder. Pass a folder, npm:PACKAGE or a Hugging Face model ID such as roberta-base.`,
    );
  return resolveHubModel(reference, callbacks);
}

async function resolveFolder(reference: string): Promise<ModelFolder> {
  const folder = resolve(reference);
  const found: ModelFolder = { folder, name: basename(folder), source: "folder" };
  const inner = join(folder, "model");
  if (await exists(join(inner, "config.json"))) return { ...found, folder: inner };
  if (await exists(join(folder, "config.json"))) return found;
  throw new UserError(
    `${reference}: expected config.json (a model folder) or model/config.json (a run folder); found neither. ` +
      "A run has no model before it has finished: resume it with temper train --resume.",
  );
}

/** A file onnx/NAME.onnx belongs to the folder that contains onnx/. */
async function resolveOnnxFile(file: string): Promise<ModelFolder> {
  const inner = dirname(file);
  const folder = basename(inner) === "onnx" ? dirname(inner) : inner;
  return { ...(await resolveFolder(folder)), onnxFile: file };
}

async function resolvePackage(specifier: string): Promise<ModelFolder> {
  const parts = /^((?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~-][\w.~-]*)((?:\/[\w~-][\w.~-]*)*)$/i.exec(specifier);
  if (parts === null) throw new UserError(`expected npm:PACKAGE or npm:PACKAGE/FOLDER, received "npm:${specifier}"`);
  const [, name, inside] = parts as unknown as [string, string, string];
  const root = await findPackage(name);
  const found = { name: specifier, source: "npm" as const };
  const start = join(root, inside);
  if (await exists(join(start, "config.json"))) return { ...found, folder: start };
  const folders = (await readdir(start, { withFileTypes: true }).catch(() => [])).filter((entry) =>
    entry.isDirectory(),
  );
  const models: string[] = [];
  for (const { name: folder } of folders) if (await exists(join(start, folder, "config.json"))) models.push(folder);
  if (models.length === 1) return { ...found, folder: join(start, models[0]!) };
  if (models.length === 0)
    throw new UserError(`npm:${specifier}: no config.json in ${start} or its subfolders. Is it a model package?`);
  const choices = models.map((model) => `npm:${specifier}/${model}`).join(", ");
  throw new UserError(`npm:${specifier} contains several models. Choose one: ${choices}`);
}

async function resolveHubModel(reference: string, callbacks: Pick<Callbacks, "onEvent">): Promise<ModelFolder> {
  const [name = "", revision] = reference.split(/@(.*)/, 2);
  const repo = { type: "model" as const, name, ...(revision === undefined ? {} : { revision }) };
  const folder = await downloadHubSnapshot(repo, (paths) => selectNeededFiles(name, paths), callbacks);
  if (await exists(join(folder, "config.json"))) return { folder, name: reference, source: "hub" };
  throw new UserError(`${reference}: the cached copy (${folder}) lacks config.json. Download it again while online.`);
}

/** Returns true if a model is a folder, a file or a package, which may be missing. Otherwise it is on the hub. */
async function isLocalModel(reference: string): Promise<boolean> {
  return reference.startsWith("npm:") || (await getPathKind(reference)) !== null || (await isPathLike(reference));
}

/** Rejects a folder or a package without a model. Nothing is downloaded. */
export async function checkLocalModel(reference: string): Promise<void> {
  if (await isLocalModel(reference)) await resolveModel(reference);
}

/** Lists the files of a model on the hub, or null if the model is a folder or a package. */
export async function listModelFiles(reference: string): Promise<HubFile[] | null> {
  if (await isLocalModel(reference)) return null;
  const [name = "", revision] = reference.replace(/^hf:/, "").split(/@(.*)/, 2);
  const files = await listHubFiles(await openHubSnapshot({ type: "model", name, ...(revision && { revision }) }));
  const needed = new Set(
    selectNeededFiles(
      name,
      files.map(({ path }) => path),
    ),
  );
  return files.filter(({ path }) => needed.has(path));
}

const auxiliaryFiles = [
  "config.json",
  "tokenizer.json",
  SUBWORD_TOKENIZER,
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.txt",
  sentencePieceFile,
  "head.safetensors",
];

/** Selects the files that we need. Many repositories have the same weights in several formats. */
function selectNeededFiles(name: string, paths: readonly string[]): string[] {
  const top = paths.filter((path) => !path.includes("/"));
  if (!top.includes("config.json"))
    throw new UserError(`${name}: this repository has no config.json. Is it a transformers model?`);
  const graph = findOnnxPath(paths)?.path;
  const weights = findWeightsFile(top);
  if ((weights === null || prefersOnnx()) && graph !== undefined)
    return paths.filter((path) => auxiliaryFiles.includes(path) || path === graph || path.startsWith(`${graph}_data`));
  if (readBackend() === "onnx")
    throw new UserError(
      `${name}: expected onnx/model.onnx or model.onnx, because TEMPER_BACKEND is onnx; the repository has neither.`,
    );
  if (weights === null) throw new UserError(describeMissingWeights(name, top));
  const isWeights = (path: string): boolean =>
    path === weights.file || (weights.kind === "sharded" && /^model.*\.safetensors$/.test(path));
  return top.filter((path) => auxiliaryFiles.includes(path) || isWeights(path));
}

async function getPathKind(path: string): Promise<"folder" | "file" | null> {
  const found = await stat(path).catch(() => null);
  if (found === null) return null;
  return found.isDirectory() ? "folder" : "file";
}

/** True if a reference is not a valid model ID, or if its first part is an existing folder. */
async function isPathLike(reference: string): Promise<boolean> {
  if (/^[./~]|\\|\/$|\/.*\//.test(reference.replace(/@.*/, ""))) return true;
  const [first, second] = reference.split("/");
  return second !== undefined && (await getPathKind(first!)) === "folder";
}
