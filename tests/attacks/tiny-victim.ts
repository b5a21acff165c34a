import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportModel } from "../../src/actions/export.js";
import { train } from "../../src/actions/train/train.js";
import type { RunConfig } from "../../src/settings/config.js";
import { reviews, tinyRun, writeReviews } from "../tiny-run.js";
import { waitForLock } from "../wait-for-lock.js";

/**
 * Substitutes for words of the reviews. Some replace the word that determines the label by its
 * opposite.
 */
const table = {
  good: ["fine", "grey", "dull"],
  fine: ["good", "cold"],
  bright: ["warm", "grey"],
  warm: ["bright", "good"],
  bad: ["dull", "fine"],
  dull: ["bad", "bright", "warm"],
  grey: ["cold", "dull"],
  cold: ["grey"],
  film: ["scene", "plot"],
  plot: ["film", "scene"],
  the: ["a"],
  was: ["of", "it"],
};

export interface TinyVictim {
  /** The run folder. */
  readonly run: string;
  readonly substitutions: string;
  /** A file with more reviews to attack. */
  readonly data: string;
}

/**
 * Writes a tiny trained classifier and the files that an attack on it needs. Each kind of victim is
 * trained once per suite. Every caller gets a copy, which it may change.
 */
export async function tinyVictim(
  folder: string,
  changes: Partial<Omit<RunConfig, "train">> = {},
  count = 60,
): Promise<TinyVictim> {
  const shared = await trainOnce(changes);
  cpSync(shared, folder, { recursive: true });
  return {
    run: join(folder, "run"),
    substitutions: join(folder, "table.json"),
    data: writeReviews(join(folder, "more.tsv"), count, "more"),
  };
}

/** Returns the folder of a trained victim. If another process is training it, waits for that. */
async function trainOnce(changes: Partial<Omit<RunConfig, "train">>): Promise<string> {
  const name = createHash("sha256").update(JSON.stringify(changes)).digest("hex").slice(0, 12);
  const folder = join(process.env.TEMPER_TEST_SHARED!, `victim-${name}`);
  const release = await waitForLock(`${folder}.lock`);
  try {
    if (existsSync(folder)) return folder;
    const substitutions = join(folder, "table.json");
    mkdirSync(folder);
    writeFileSync(substitutions, JSON.stringify(table));
    const config = await tinyRun(folder, { substitutions, ...changes, train: { epochs: 8, dropout: false } });
    await trainVictim({ ...config, out: join(folder, "run") });
    return folder;
  } finally {
    release();
  }
}

/** Whether the victims run on ONNX Runtime, as in `make test-onnx`. */
export const isOnnxSuite = process.env.TEMPER_BACKEND === "onnx";

/** Trains a run. If the suite uses ONNX Runtime, the model is exported into the run. */
export async function trainVictim(request: Parameters<typeof train>[0] & { readonly out: string }): Promise<void> {
  if (!isOnnxSuite) return void (await train(request));
  delete process.env.TEMPER_BACKEND;
  try {
    await train(request);
    const exported = `${request.out}-exported`;
    await exportModel({ model: request.out, out: exported, threads: 1, numExamples: 1 });
    cpSync(join(exported, "onnx"), join(request.out, "model", "onnx"), { recursive: true });
  } finally {
    process.env.TEMPER_BACKEND = "onnx";
  }
}

/** Returns reviews as examples of a task. */
export function reviewExamples(count: number): { id: string; texts: string[]; label: number }[] {
  return reviews(count, "examples").map(({ text, label }, i) => ({
    id: `review ${i}`,
    texts: [text],
    label: label === "positive" ? 1 : 0,
  }));
}
