import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fineTune } from "../../src/actions/train/train.js";
import type { RunConfig } from "../../src/runs/config.js";
import { reviews, tinyRun, writeReviews } from "../tiny-run.js";

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
  readonly config: RunConfig;
  readonly substitutions: string;
  /** A file with more reviews to attack. */
  readonly data: string;
}

/** Trains a tiny classifier and writes the files that an attack on it needs. */
export async function tinyVictim(
  folder: string,
  changes: Partial<Omit<RunConfig, "train">> = {},
  count = 60,
): Promise<TinyVictim> {
  const substitutions = join(folder, "table.json");
  mkdirSync(folder, { recursive: true });
  writeFileSync(substitutions, JSON.stringify(table));
  const config = await tinyRun(folder, { substitutions, ...changes, train: { epochs: 8, dropout: false } });
  const run = join(folder, "run");
  await fineTune(config, { out: run });
  return { run, config, substitutions, data: writeReviews(join(folder, "more.tsv"), count, "more") };
}

/** Returns reviews as examples of a task. */
export function reviewExamples(count: number): { id: string; texts: string[]; label: number }[] {
  return reviews(count, "examples").map(({ text, label }, i) => ({
    id: `review ${i}`,
    texts: [text],
    label: label === "positive" ? 1 : 0,
  }));
}
