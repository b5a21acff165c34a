import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.js";
import { checkRegularFile, sha256File } from "../base/files.js";
import { readTextSettings } from "../models/checkpoint/load.js";
import type { Model } from "../models/index.js";
import type { Tokenization } from "../text/encoding.js";
import type { OnnxFile } from "./find-onnx-file.js";
import { findOnnxRuntime } from "./find-onnx-runtime.js";
import { openOnnxClassifier } from "./onnx-classifier.js";

export async function loadOnnxModel(
  reference: string,
  folder: string,
  { path: file, precision }: OnnxFile,
  options: {
    readonly threads: number;
    /** The tokenization of a model that Temper did not export. */
    readonly tokenization?: Tokenization;
    readonly maxLength?: number;
  },
): Promise<Model> {
  const settings = await readTextSettings(reference, folder, options);
  const { config, metadata, tokenizer, tokenization, normalize, maxLength } = settings;
  const { head = "hf", pooling = "cls", labels = config.labels, task = null, exportedFrom = null } = metadata ?? {};
  const found = findOnnxRuntime();
  if ("problem" in found) throw new UserError(`${file}: ${found.problem}.`);
  const { runtime } = found;
  for (const path of await listOnnxFiles(file))
    await checkRegularFile(path, "the ONNX file", { kind: "weights", root: folder });
  const { padId } = tokenizer.special;
  const isQuantized = precision === "int8";
  return {
    architecture: { config, head, pooling, numLabels: labels.length },
    weights: new Map(),
    tokenizer,
    tokenization,
    maxLength,
    labels,
    task,
    folder,
    reference,
    ...(normalize && { normalize }),
    newlyInitialized: [],
    session: {
      classifier: await openOnnxClassifier(runtime, file, {
        name: file,
        labels,
        padId,
        threads: options.threads,
        isQuantized,
      }),
      // Scores that an earlier version cached came from calls of several texts, which 8 bits do not allow.
      engine: `onnxruntime-node ${runtime.env.versions.node}${isQuantized ? ", one text per call" : ""}`,
      hash: () => hashOnnxModel(folder, file),
      exportedFrom,
    },
  };
}

/** The graph and the files next to it with its large tensors. ONNX Runtime reads none outside of their folder. */
async function listOnnxFiles(file: string): Promise<string[]> {
  const inside = dirname(file);
  const names = (await readdir(inside)).filter((name) => name.startsWith(basename(file))).sort();
  return names.map((name) => join(inside, name));
}

async function hashOnnxModel(folder: string, file: string): Promise<string> {
  const hash = createHash("sha256");
  for (const path of [join(folder, "config.json"), ...(await listOnnxFiles(file))])
    hash.update(`${basename(path)} ${await sha256File(path, { kind: "weights", root: folder })}\n`);
  return hash.digest("hex");
}
