import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { stopIfAborted } from "../../base/event-loop.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { createFolder, readJson, readText, sha256File, writeFileAtomic } from "../../base/files.js";
import { openResultCache } from "../../base/result-cache.js";
import { countSchema, orNull, validate } from "../../base/validate.js";
import { applyRuntime, runtimeOptions } from "../../settings/runtime-config.js";
import { getDataRoots } from "../../tasks/find-dataset.js";
import { createNeighborSearch, type NeighborBlock } from "../../text/neighbors.js";
import { maxSubstitutes } from "../../text/substitutions.js";
import { readWordVectors } from "../../text/vectors.js";
import { Interrupted } from "../../train/index.js";

export const substitutionsRequestSchema = z.strictObject({
  vectors: z.string().describe("text file with a word and its vector per line, such as counter-fitted-vectors.txt"),
  vocabulary: orNull(z.string()).describe(
    "keep only these words: a text file with one word per line, or the keys of a JSON table",
  ),
  maxNeighbors: countSchema.max(maxSubstitutes).default(maxSubstitutes).describe("maximum substitutes per word"),
  maxDistance: z
    .number()
    .positive()
    .default(0.5)
    .describe("substitutes are closer than this squared Euclidean distance"),
  out: orNull(
    z.string(),
    "substitutions/counterfitted_neighbors.json in the data folder (TEMPER_DATA or data)",
  ).describe("the table"),
  threads: runtimeOptions.threads,
});
/**
 * Builds a substitution table from word vectors: for each word its nearest neighbors, nearest
 * first. Finished blocks are kept in OUT.part, so that a stopped call continues.
 *
 *     await substitutions({ vectors: "counter-fitted-vectors.txt" });
 */
export async function substitutions(
  request: z.input<typeof substitutionsRequestSchema>,
  callbacks: Callbacks = {},
): Promise<{ readonly out: string; readonly words: number; readonly wordsWithSubstitutes: number }> {
  const parsed = validate(substitutionsRequestSchema, request, "substitutions build");
  const { vectors: path, maxNeighbors, maxDistance } = parsed;
  const out = parsed.out ?? getTablePath("counterfitted_neighbors.json");
  checkOutput(out);
  applyRuntime({ device: "cpu", threads: parsed.threads, precision: "fp32" });
  const vocabulary = parsed.vocabulary === null ? undefined : await readVocabulary(parsed.vocabulary);
  const vectors = await readWordVectors(path, {
    vocabulary,
    onProgress(done, total) {
      reportProgress(callbacks, "read", done, total, "bytes");
      stopIfAborted(callbacks.signal);
    },
  });
  const { words } = vectors;
  const hashes = [await sha256File(path), parsed.vocabulary === null ? null : await sha256File(parsed.vocabulary)];
  createFolder(dirname(out));
  const part = getPartPath(out);
  const cache = openResultCache<NeighborBlock>(part);
  const search = createNeighborSearch(vectors, { maxNeighbors, maxSquaredDistance: maxDistance });
  const neighbors: (readonly number[])[] = [];
  try {
    for (let start = 0; start < words.length; start += search.blockSize) {
      const key = JSON.stringify([...hashes, maxNeighbors, maxDistance, start, search.blockSize]);
      const block = cache.get(key) ?? search.search(start);
      if (cache.get(key) === undefined) cache.add(key, block);
      neighbors.push(...block);
      reportProgress(callbacks, "neighbors", neighbors.length, words.length, "words");
      await new Promise(setImmediate);
      if (callbacks.signal?.aborted && neighbors.length < words.length)
        throw new Interrupted(`Stopped after ${neighbors.length} of ${words.length} words. They are kept in ${part}.`);
    }
  } finally {
    cache.close();
    search.free();
  }
  const table = Object.fromEntries(neighbors.map((each, i) => [words[i]!, each.map((other) => words[other]!)]));
  await writeFileAtomic(out, `${JSON.stringify(table)}\n`);
  await rm(part);
  return { out, words: words.length, wordsWithSubstitutes: neighbors.filter(({ length }) => length > 0).length };
}

async function readVocabulary(path: string): Promise<ReadonlySet<string>> {
  const words = path.endsWith(".json")
    ? Object.keys((await readJson(path, "the vocabulary")) as object)
    : (await readText(path, "the vocabulary")).split(/\r?\n/).map((line) => line.trim());
  return new Set(words.filter((word) => word !== "").map((word) => word.toLowerCase()));
}

export function getTablePath(name: string): string {
  return join(getDataRoots()[0]!, "substitutions", name);
}

export function getPartPath(out: string): string {
  return `${out}.part`;
}

/** Results of attacks depend on a table, so an existing one is never replaced. */
export function checkOutput(out: string): void {
  if (existsSync(out)) throw new UserError(`${out} already exists. Remove it first, or choose a different --out.`);
}
