import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Rng } from "../src/base/rng.js";
import type { SafetensorsTensor } from "../src/models/checkpoint/safetensors-writer.js";
import { type RunConfig, runConfigSchema } from "../src/settings/config.js";
import { writeTinyModel } from "./cli/tiny-model.js";

const special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const praise = ["good", "fine", "bright", "warm"];
const blame = ["bad", "dull", "grey", "cold"];
const filler = ["a", "the", "film", "plot", "was", "and", "very", "scene", "of", "it"];

/** Writes a BERT that learns in milliseconds. Its vocabulary has the words of `writeReviews`, and `more`. */
export function writeTinyBert(folder: string, more: readonly string[] = []): Promise<string> {
  const reset = (tensors: SafetensorsTensor[]): SafetensorsTensor[] =>
    tensors.map((tensor) => ({ ...tensor, bytes: () => createInitialBytes(tensor) }));
  return writeTinyModel(folder, reset, [...special, ...praise, ...blame, ...filler, ...more]);
}

/** LayerNorm starts as the identity. With random values, nothing is learned. */
function createInitialBytes({ name, bytes }: SafetensorsTensor): Uint8Array {
  if (!name.includes("LayerNorm")) return bytes();
  return new Uint8Array(new Float32Array(bytes().length / 4).fill(name.endsWith("weight") ? 1 : 0).buffer);
}

/** Short reviews. One word of each determines its label. */
export function reviews(count: number, seed: number | string = 0): { text: string; label: string }[] {
  const rng = new Rng(seed);
  const pick = (from: readonly string[]): string => from[rng.integer(from.length)]!;
  return Array.from({ length: count }, (_, i) => {
    const words = Array.from({ length: 1 + rng.integer(7) }, () => pick(filler));
    words.splice(rng.integer(words.length + 1), 0, pick(i % 2 ? praise : blame));
    return { text: words.join(" "), label: i % 2 ? "positive" : "negative" };
  });
}

export function writeReviews(path: string, count = 120, seed: number | string = 0): string {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(
    path,
    `text\tlabel\n${reviews(count, seed)
      .map(({ text, label }) => `${text}\t${label}`)
      .join("\n")}\n`,
  );
  return path;
}

/** The config of a run on such reviews that takes milliseconds per step, with changes. */
export async function tinyRun(
  folder: string,
  { train, ...changes }: Partial<Omit<RunConfig, "train">> & { train?: Partial<RunConfig["train"]> } = {},
): Promise<RunConfig> {
  return runConfigSchema.parse({
    model: await writeTinyBert(join(folder, "tiny-bert")),
    data: writeReviews(join(folder, "reviews.tsv")),
    textColumn: ["text"],
    labelColumn: "label",
    // What the tiny model can read.
    maxLength: 12,
    device: "cpu",
    threads: 1,
    train: { epochs: 2, batchSize: 8, learningRate: 1e-2, ...train },
    ...changes,
  });
}
